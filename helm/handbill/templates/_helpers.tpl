{{/* Names, labels and the fields that every pod shares. */}}

{{/* The prefix of every object's name. It has at most 40 characters, so that names with suffixes from here and from Kubernetes stay
     within 63. It always contains `handbill`, since the alert on volumes finds the claims by it. */}}
{{- define "handbill.fullname" -}}
{{- $name := .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if contains "handbill" $name -}}
{{ $name }}
{{- else -}}
{{ .Release.Name | trunc 31 | trimSuffix "-" }}-handbill
{{- end -}}
{{- end -}}

{{/* Labels that never change and select pods. Takes a dict of `root` and `component`. */}}
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

{{/* "true" if the bundled database is part of the release, else empty. */}}
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

{{/* The host of baseUrl in lower case, as Kubernetes requires it in a route. */}}
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

{{/* The line that names a storage class. An empty value gives no line, which means the cluster's default. `-` gives an empty
     class, which means none, as is the custom in Helm charts. */}}
{{- define "handbill.storageClass" -}}
{{- if . -}}
storageClassName: {{ eq . "-" | ternary "" . | quote }}
{{- end -}}
{{- end -}}

{{/* 65532 is the user of the image. The group lets it read the Secrets and write to its volume. */}}
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

{{/* Fields that every pod of the chart shares. Service links are off, since Kubernetes would inject HANDBILL_… variables for the
     Services, and the program would take them for settings. */}}
{{- define "handbill.podDefaults" -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
