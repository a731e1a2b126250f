{{/* Names, labels and what every pod has. */}}

{{/* The release's name in every object. At most 40 characters, so that what is appended here and by Kubernetes stays within 63;
     always with `handbill` in it, by which the alert on volumes finds the claims. */}}
{{- define "handbill.fullname" -}}
{{- $name := .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if contains "handbill" $name -}}
{{ $name }}
{{- else -}}
{{ .Release.Name | trunc 31 | trimSuffix "-" }}-handbill
{{- end -}}
{{- end -}}

{{/* Labels that never change, by which pods are selected. Takes a dict of `root` and `component`. */}}
{{- define "handbill.selectorLabels" -}}
app.kubernetes.io/name: handbill
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* All labels of an object. Takes a dict of `root` and `component`. */}}
{{- define "handbill.labels" -}}
{{ include "handbill.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "handbill.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* "true" or nothing: whether the bundled databases are part of the release. */}}
{{- define "handbill.bundledScylla" -}}
{{- if and (eq .Values.mode "cluster") .Values.scylla.bundled.enabled }}true{{ end -}}
{{- end -}}
{{- define "handbill.bundledRedis" -}}
{{- if and (eq .Values.mode "cluster") .Values.redis.bundled.enabled }}true{{ end -}}
{{- end -}}

{{- define "handbill.replicas" -}}
{{- if kindIs "invalid" .Values.replicaCount -}}
{{ eq .Values.mode "cluster" | ternary 3 1 }}
{{- else -}}
{{ int .Values.replicaCount }}
{{- end -}}
{{- end -}}

{{/* The host of baseUrl, in small letters, as Kubernetes wants it in a route. */}}
{{- define "handbill.host" -}}
{{- $address := regexReplaceAll "^https?://" .Values.baseUrl "" -}}
{{- regexReplaceAll ":[0-9]+$" $address "" | lower -}}
{{- end -}}

{{- define "handbill.ingressHost" -}}
{{ .Values.ingress.host | default (include "handbill.host" .) | lower }}
{{- end -}}

{{/* The hosts of the HTTPRoute, comma-separated. */}}
{{- define "handbill.routeHosts" -}}
{{ join "," .Values.httpRoute.hostnames | lower | default (include "handbill.host" .) }}
{{- end -}}

{{/* The line that names a storage class: none when the value is empty, so that the cluster's default is taken; no class for
     `-`, as Helm's custom is. */}}
{{- define "handbill.storageClass" -}}
{{- if . -}}
storageClassName: {{ eq . "-" | ternary "" . | quote }}
{{- end -}}
{{- end -}}

{{/* The user of the image. The group lets it read the Secrets and write to its volume. */}}
{{- define "handbill.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "handbill.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What every pod of the chart has. Kubernetes would inject HANDBILL_… variables of the Services, which the program would
     take for settings. */}}
{{- define "handbill.podDefaults" -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
