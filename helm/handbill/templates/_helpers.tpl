{{/* Names, labels, and what all pods have in common. */}}

{{/* At most 50 characters, so that Kubernetes can add its own suffixes. A longer name is cut, and a digest keeps it apart from others. */}}
{{- define "handbill.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name }}{{ $name = .Release.Name }}{{ else }}{{ $name = printf "%s-%s" .Release.Name $name }}{{ end -}}
{{- $name = .Values.fullnameOverride | default $name | replace "." "-" -}}
{{- if gt (len $name) 50 }}{{ $name = printf "%s-%s" (trunc 43 $name | trimSuffix "-") (sha256sum $name | trunc 6) }}{{ end -}}
{{- $name -}}
{{- end -}}

{{/* The claim of the SQLite store. */}}
{{- define "handbill.claim" -}}
{{- (.Values.persistence).existingClaim | default (printf "%s-data" (include "handbill.fullname" .)) -}}
{{- end -}}

{{/* Labels that select pods. Takes a list: root, component. */}}
{{- define "handbill.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Values.nameOverride | default "handbill" | quote }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Name, labels and annotations of an object. Takes a list: root, component, suffix of the name, and optionally further labels, annotations. */}}
{{- define "handbill.metadata" -}}
{{- $root := index . 0 -}}
{{- $version := dict "app.kubernetes.io/version" (replace "+" "_" $root.Chart.AppVersion) "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $further := dict }}{{ if gt (len .) 3 }}{{ $further = index . 3 }}{{ end -}}
name: {{ include "handbill.fullname" $root }}{{ index . 2 }}
labels: {{- mergeOverwrite dict ($root.Values.commonLabels | default dict) ($further | default dict) $version (include "handbill.selector" . | fromYaml) | toYaml | nindent 2 }}
{{- if gt (len .) 4 }}{{ with index . 4 }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}{{ end }}
{{- end -}}

{{/* Labels of a pod. Takes a list: root, component. */}}
{{- define "handbill.podLabels" -}}
{{- mergeOverwrite dict ((index . 0).Values.commonLabels | default dict) ((index . 0).Values.podLabels | default dict) (include "handbill.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Hosts of the Ingress and the HTTPRoute, as a YAML list. */}}
{{- define "handbill.hosts" -}}
{{- range compact (list .Values.baseUrl (.Values.mcpBaseUrl | default "")) }}
- {{ regexReplaceAll "^https?://|:[0-9]+$" . "" | lower | quote }}
{{- end }}
{{- end -}}

{{/* Fields of every pod. Service links would set HANDBILL_… variables, which the program would take for settings. */}}
{{- define "handbill.pod" -}}
enableServiceLinks: false
automountServiceAccountToken: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- range $field := list "serviceAccountName" "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.Values $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Metadata of a pod that ends by itself. A sidecar of a service mesh would keep it from ending. Takes a list: root, component. */}}
{{- define "handbill.endingPod" -}}
labels: {{- merge (dict "sidecar.istio.io/inject" "false") (include "handbill.podLabels" . | fromYaml) | toYaml | nindent 2 }}
annotations: {{- merge (dict "linkerd.io/inject" "disabled") ((index . 0).Values.podAnnotations | default dict) | toYaml | nindent 2 }}
{{- end -}}

{{/* Fields of every container. */}}
{{- define "handbill.container" -}}
{{- $image := .Values.image | default dict -}}
image: "{{ $image.repository }}:{{ $image.tag | default (replace "+" "_" .Chart.AppVersion) }}{{ with $image.digest }}@{{ . }}{{ end }}"
imagePullPolicy: {{ $image.pullPolicy | default "IfNotPresent" }}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}
