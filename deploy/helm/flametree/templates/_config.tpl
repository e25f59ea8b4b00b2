{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* The settings of a role as YAML: what the values say, and `config` over it. Secrets are not among them. */}}

{{- define "flametree.hosts" -}}
{{- $full := include "flametree.fullname" . -}}
{{- $hosts := list -}}
{{- range include "flametree.roles" . | fromJsonArray -}}
{{- $name := printf "%s-%s" $full . -}}
{{- $hosts = concat $hosts (list $name (printf "%s.%s" $name $.Release.Namespace) (printf "%s.%s.svc" $name $.Release.Namespace) (printf "%s.%s.svc.%s" $name $.Release.Namespace $.Values.clusterDomain)) -}}
{{- end -}}
{{- concat $hosts .Values.hosts .Values.ingress.hosts .Values.gateway.hosts | uniq | toJson -}}
{{- end -}}

{{- define "flametree.members" -}}
{{- printf "dns:_internal._tcp.%s-%s-internal.%s.svc.%s" (include "flametree.fullname" .root) .role .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{- define "flametree.storageSections" -}}
{{- $v := .root.Values -}}
{{- $storage := dict "kind" $v.storage.kind -}}
{{- if and (eq $v.storage.kind "local") $v.storage.local.existingClaim -}}
{{- $_ := set $storage "dir" "/store" -}}
{{- end -}}
{{- $out := dict "storage" $storage -}}
{{- if eq $v.storage.kind "s3" -}}
{{- $s3 := dict "bucket" $v.storage.s3.bucket "style" $v.storage.s3.style -}}
{{- range $key := list "endpoint" "region" "prefix" -}}
{{- with index $v.storage.s3 $key -}}{{- $_ := set $s3 $key . -}}{{- end -}}
{{- end -}}
{{- if $v.storage.s3.caSecret -}}{{- $_ := set $s3 "ca_file" (printf "/secrets/store-ca/%s" $v.storage.s3.caKey) -}}{{- end -}}
{{- $_ := set $out "s3" $s3 -}}
{{- else if eq $v.storage.kind "azure" -}}
{{- $azure := dict "container" $v.storage.azure.container -}}
{{- range $key := list "account" "endpoint" "prefix" -}}
{{- with index $v.storage.azure $key -}}{{- $_ := set $azure $key . -}}{{- end -}}
{{- end -}}
{{- if $v.storage.azure.existingSecret -}}{{- $_ := set $azure "key_file" (printf "/secrets/azure/%s" $v.storage.azure.secretKey) -}}{{- end -}}
{{- $_ := set $out "azure" $azure -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{- define "flametree.config" -}}
{{- $v := .root.Values -}}
{{- $mine := index $v (include "flametree.valuesKey" .role) -}}
{{- $one := eq .role "all-in-one" -}}
{{- $server := dict "listen" ":4040" "data_dir" "/data" "memory_limit" $mine.memoryLimit "hosts" (include "flametree.hosts" .root | fromJsonArray) "drain_timeout" "30s" -}}
{{- with $v.pathPrefix -}}{{- $_ := set $server "path_prefix" . -}}{{- end -}}
{{- if $v.tls.public.secretName -}}
{{- $_ := set $server "tls_cert_file" "/secrets/public-tls/tls.crt" -}}
{{- $_ := set $server "tls_key_file" "/secrets/public-tls/tls.key" -}}
{{- end -}}
{{- $internal := dict -}}
{{- if $v.tls.internal.secretName -}}
{{- $internal = dict "tls_cert_file" "/secrets/internal-tls/tls.crt" "tls_key_file" "/secrets/internal-tls/tls.key" "tls_ca_file" "/secrets/internal-tls/ca.crt" -}}
{{- end -}}
{{- $out := dict "server" $server "admin" (dict "listen" ":4042") "auth" (dict "multitenancy_enabled" $v.multitenancy) "runtime_config" (dict "file" (list "/config/overrides/overrides.yaml")) -}}
{{- if $internal -}}{{- $_ := set $out "internal" $internal -}}{{- end -}}
{{- $out = merge $out (include "flametree.storageSections" . | fromJson) -}}
{{- /* With the log in the store a push waits half a second for its object, and holds a thread meanwhile: 64 of them, which are enough
for a disk, would take 128 pushes a second. Threads begin when they are needed. */ -}}
{{- if and (eq $v.log "object") (has .role (list "distributor" "ingester")) -}}
{{- $_ := set $out "lanes" (dict (eq .role "distributor" | ternary "public_width" "ingester_width") 512) -}}
{{- end -}}
{{- if not $one -}}
{{- $_ := set $out "cluster" (dict "ingesters" (list (include "flametree.members" (dict "root" .root "role" "ingester"))) "queriers" (list (include "flametree.members" (dict "root" .root "role" "querier"))) "compactors" (list (include "flametree.members" (dict "root" .root "role" "compactor")))) -}}
{{- end -}}
{{- $self := dict "enabled" $v.selfProfile -}}
{{- if and $v.selfProfile (not $one) (ne .role "distributor") -}}
{{- $_ := set $self "url" (printf "%s://%s:4040" (include "flametree.scheme" .root) (include "flametree.pushService" .root)) -}}
{{- end -}}
{{- $_ := set $out "self_profile" $self -}}
{{- if $one -}}
{{- $_ := set $out "ingester" (dict "log" $v.log "head_memory" $mine.headMemory) -}}
{{- else if eq .role "ingester" -}}
{{- $_ := set $out "ingester" (merge (dict) $mine.config (dict "log" $v.log "head_memory" $mine.headMemory)) -}}
{{- else -}}
{{- $section := deepCopy (default (dict) $mine.config) -}}
{{- /* The size of an emptyDir is no size of a file system: who takes more is evicted. A quarter is left for the rest of /data. */ -}}
{{- if eq .role "querier" -}}
{{- $cache := printf "%dMiB" (div (mul (include "flametree.bytes" (default "0" $mine.cacheSize) | int64) 3) 4194304) -}}
{{- $section = merge $section (dict "disk_cache" $cache) -}}
{{- end -}}
{{- with $section -}}{{- $_ := set $out $.role . -}}{{- end -}}
{{- end -}}
{{- $out = mergeOverwrite $out (deepCopy $v.config) -}}
{{- toYaml $out -}}
{{- end -}}
