{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Names, labels and small decisions that several templates share. */}}

{{- define "flametree.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that choose: those of the release, and with .role those of a role. */}}
{{- define "flametree.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "flametree.labels" -}}
{{ include "flametree.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{- define "flametree.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "flametree.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "flametree.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Roles of this release, as a list. */}}
{{- define "flametree.roles" -}}
{{- if eq .Values.mode "cluster" -}}
{{- list "distributor" "ingester" "querier" "compactor" | toJson -}}
{{- else -}}
{{- list "all-in-one" | toJson -}}
{{- end -}}
{{- end -}}

{{/* The key of a role in the values. */}}
{{- define "flametree.valuesKey" -}}
{{- if eq . "all-in-one" }}allInOne{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* The service that has the public port of pushes, or of questions. */}}
{{- define "flametree.pushService" -}}
{{- printf "%s-%s" (include "flametree.fullname" .) (eq .Values.mode "cluster" | ternary "distributor" "all-in-one") -}}
{{- end -}}

{{- define "flametree.queryService" -}}
{{- printf "%s-%s" (include "flametree.fullname" .) (eq .Values.mode "cluster" | ternary "querier" "all-in-one") -}}
{{- end -}}

{{- define "flametree.scheme" -}}
{{- if .Values.tls.public.secretName }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* Paths of pushes: Ingress and HTTPRoute send these to distributors, and everything else to queriers. */}}
{{- define "flametree.pushPaths" -}}
{{- list "/push.v1.PusherService" "/ingest" "/pyroscope/ingest" "/opentelemetry.proto.collector.profiles.v1development.ProfilesService" "/v1development/profiles" "/parca.profilestore.v1alpha1.ProfileStoreService" "/parca.debuginfo.v1alpha1.DebuginfoService" | toJson -}}
{{- end -}}

{{/* Whether pods have volumes of their own that outlive them. */}}
{{- define "flametree.ownVolume" -}}
{{- if or (eq .role "all-in-one") (and (eq .role "ingester") (eq .root.Values.log "local")) }}yes{{ end -}}
{{- end -}}

{{- define "flametree.priorityClassName" -}}
{{- $v := index .root.Values (include "flametree.valuesKey" .role) -}}
{{- if $v.priorityClassName -}}
{{- $v.priorityClassName -}}
{{- else if .root.Values.priorityClasses.create -}}
{{- printf "%s-%s" (include "flametree.fullname" .root) (has .role (list "querier" "compactor") | ternary "later" "first") -}}
{{- end -}}
{{- end -}}

{{/* Where the store is, as one text: two releases must not have the same. Empty for a volume of the release's own. */}}
{{- define "flametree.place" -}}
{{- $v := .Values.storage -}}
{{- if eq $v.kind "s3" -}}
{{- printf "s3 %s/%s/%s" (default "amazon" $v.s3.endpoint | trimSuffix "/") $v.s3.bucket $v.s3.prefix -}}
{{- else if eq $v.kind "azure" -}}
{{- printf "azure %s%s/%s/%s" $v.azure.endpoint $v.azure.account $v.azure.container $v.azure.prefix -}}
{{- else if $v.local.existingClaim -}}
{{- printf "claim %s/%s" .Release.Namespace $v.local.existingClaim -}}
{{- end -}}
{{- end -}}

{{/* Bytes of a quantity of Kubernetes, such as 4Gi. */}}
{{- define "flametree.bytes" -}}
{{- $unit := regexFind "[A-Za-z]*$" . -}}
{{- $factor := dict "" 1 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (trimSuffix $unit . | float64) (get $factor $unit) | int64 -}}
{{- end -}}
