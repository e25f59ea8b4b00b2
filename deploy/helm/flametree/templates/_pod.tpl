{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* The pod template of a role: .root and .role. */}}

{{- define "flametree.spread" -}}
{{- $v := .root.Values -}}
{{- if ne $v.spread "off" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $v.zoneLabel }}
    whenUnsatisfiable: {{ eq $v.spread "required" | ternary "DoNotSchedule" "ScheduleAnyway" }}
    labelSelector:
      matchLabels:
        {{- include "flametree.selector" . | nindent 8 }}
{{- end }}
{{- $affinity := deepCopy (index $v (include "flametree.valuesKey" .role)).affinity }}
{{- if and (ne $v.spread "off") (not $affinity.podAntiAffinity) }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "flametree.selector" . | fromYaml)) }}
{{- if eq $v.spread "required" }}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) }}
{{- else }}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) }}
{{- end }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "flametree.env" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: FLAMETREE_SERVER_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- if ne .role "all-in-one" }}
- name: FLAMETREE_INTERNAL_LISTEN
  value: "$(POD_IP):4041"
{{- end }}
{{- if and (eq .root.Values.storage.kind "s3") .root.Values.storage.s3.existingSecret }}
{{- $s := .root.Values.storage.s3 }}
- name: FLAMETREE_S3_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ $s.existingSecret }}, key: {{ $s.accessKeyKey }}}}
- name: FLAMETREE_S3_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ $s.existingSecret }}, key: {{ $s.secretKeyKey }}}}
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "flametree.volumes" -}}
{{- $v := .root.Values -}}
{{- $mine := index $v (include "flametree.valuesKey" .role) -}}
- name: config
  configMap: {name: {{ include "flametree.fullname" .root }}-{{ .role }}}
- name: overrides
  configMap: {name: {{ include "flametree.fullname" .root }}-overrides}
{{- if not (include "flametree.ownVolume" .) }}
- name: data
  {{- if and (eq .role "querier") (not $mine.cacheSize) }}
  emptyDir: {}
  {{- else }}
  emptyDir: {sizeLimit: {{ eq .role "querier" | ternary $mine.cacheSize (eq .role "compactor" | ternary $mine.scratchSize "1Gi") }}}
  {{- end }}
{{- end }}
{{- if and (eq $v.storage.kind "local") $v.storage.local.existingClaim }}
- name: store
  persistentVolumeClaim: {claimName: {{ $v.storage.local.existingClaim }}}
{{- end }}
{{- with $v.tls.internal.secretName }}
- name: internal-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- with $v.tls.public.secretName }}
- name: public-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- if and (eq $v.storage.kind "s3") $v.storage.s3.caSecret }}
- name: store-ca
  secret: {secretName: {{ $v.storage.s3.caSecret }}}
{{- end }}
{{- if and (eq $v.storage.kind "azure") $v.storage.azure.existingSecret }}
- name: azure
  secret: {secretName: {{ $v.storage.azure.existingSecret }}}
{{- end }}
{{- end -}}

{{- define "flametree.mounts" -}}
{{- $v := .root.Values -}}
- {name: config, mountPath: /config/flametree, readOnly: true}
- {name: overrides, mountPath: /config/overrides, readOnly: true}
- {name: data, mountPath: /data}
{{- if and (eq $v.storage.kind "local") $v.storage.local.existingClaim }}
- {name: store, mountPath: /store}
{{- end }}
{{- if $v.tls.internal.secretName }}
- {name: internal-tls, mountPath: /secrets/internal-tls, readOnly: true}
{{- end }}
{{- if $v.tls.public.secretName }}
- {name: public-tls, mountPath: /secrets/public-tls, readOnly: true}
{{- end }}
{{- if and (eq $v.storage.kind "s3") $v.storage.s3.caSecret }}
- {name: store-ca, mountPath: /secrets/store-ca, readOnly: true}
{{- end }}
{{- if and (eq $v.storage.kind "azure") $v.storage.azure.existingSecret }}
- {name: azure, mountPath: /secrets/azure, readOnly: true}
{{- end }}
{{- end -}}

{{/* start-up and liveness ask whether the process runs (/live), also while it reads its log; readiness asks whether it serves
     (/ready). So a long start is never taken for a dead process. */}}
{{- define "flametree.probes" -}}
{{- $get := dict "port" "public" "scheme" (include "flametree.scheme" .root | upper) -}}
startupProbe:
  httpGet: {{ merge (dict "path" "/live") $get | toJson }}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {{ merge (dict "path" "/live") $get | toJson }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {{ merge (dict "path" "/ready") $get | toJson }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{- define "flametree.pod" -}}
{{- $v := .root.Values -}}
{{- $mine := index $v (include "flametree.valuesKey" .role) -}}
metadata:
  labels:
    {{- include "flametree.labels" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Other settings are other pods. Overrides are not among these: the processes read them again.
    checksum/config: {{ include "flametree.config" . | sha256sum }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "flametree.serviceAccountName" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $mine.terminationGracePeriodSeconds }}
  {{- with include "flametree.priorityClassName" . }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  {{- with $mine.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $mine.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "flametree.spread" . | nindent 2 }}
  containers:
    - name: flametree
      image: {{ include "flametree.image" .root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/bin/flametree{{ if ne .role "all-in-one" }}-{{ .role }}{{ end }}]
      args: [--config, /config/flametree/flametree.yaml]
      env:
        {{- include "flametree.env" . | nindent 8 }}
      ports:
        - {name: public, containerPort: 4040}
        {{- if ne .role "all-in-one" }}
        - {name: internal, containerPort: 4041}
        {{- end }}
        - {name: admin, containerPort: 4042}
        {{- if has .role (list "distributor" "all-in-one") }}
        - {name: otlp-grpc, containerPort: 4317}
        - {name: otlp-http, containerPort: 4318}
        {{- end }}
      {{- include "flametree.probes" . | nindent 6 }}
      # Of a process that ends, because a key or setting is wrong, the pod's status has the line that says which.
      terminationMessagePolicy: FallbackToLogsOnError
      lifecycle:
        # Endpoints learn of the pod's end a moment after it; until then it still takes what they send.
        preStop: {sleep: {seconds: 3}}
      resources:
        {{- toYaml $mine.resources | nindent 8 }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "flametree.mounts" . | nindent 8 }}
  volumes:
    {{- include "flametree.volumes" . | nindent 4 }}
{{- end -}}
