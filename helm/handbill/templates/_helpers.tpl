{{/* Names, labels, and what all pods have in common. */}}

{{/* At most 50 characters, so that Kubernetes can add its own suffixes. */}}
{{- define "handbill.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name }}{{ $name = .Release.Name }}{{ else }}{{ $name = printf "%s-%s" .Release.Name $name }}{{ end -}}
{{- .Values.fullnameOverride | default $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that select pods. Takes a list: root, component. */}}
{{- define "handbill.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Values.nameOverride | default "handbill" | quote }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Name and labels of an object. Takes a list: root, component, suffix of the name, further labels (optional). */}}
{{- define "handbill.metadata" -}}
{{- $root := index . 0 -}}
{{- $version := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{- $further := dict }}{{ if gt (len .) 3 }}{{ $further = index . 3 }}{{ end -}}
name: {{ include "handbill.fullname" $root }}{{ index . 2 }}
labels: {{- mergeOverwrite dict $root.Values.commonLabels $further $version (include "handbill.selector" . | fromYaml) | toYaml | nindent 2 }}
{{- end -}}

{{/* Labels of a pod. Takes a list: root, component. */}}
{{- define "handbill.podLabels" -}}
{{- mergeOverwrite dict (index . 0).Values.commonLabels (index . 0).Values.podLabels (include "handbill.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Hosts of the Ingress and the HTTPRoute, as a YAML list. */}}
{{- define "handbill.hosts" -}}
{{- range compact (list .Values.baseUrl .Values.mcpBaseUrl) }}
- {{ regexReplaceAll "^https?://|:[0-9]+$" . "" | lower | quote }}
{{- end }}
{{- end -}}

{{/* Fields of every pod. Service links would set HANDBILL_… variables, which the program would take for settings. */}}
{{- define "handbill.pod" -}}
enableServiceLinks: false
automountServiceAccountToken: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.Values $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Metadata of a pod that ends by itself. A sidecar of a service mesh would keep it from ending. Takes a list: root, component. */}}
{{- define "handbill.endingPod" -}}
labels: {{- merge (dict "sidecar.istio.io/inject" "false") (include "handbill.podLabels" . | fromYaml) | toYaml | nindent 2 }}
annotations: {{- merge (dict "linkerd.io/inject" "disabled") (index . 0).Values.podAnnotations | toYaml | nindent 2 }}
{{- end -}}

{{/* Fields of every container. */}}
{{- define "handbill.container" -}}
{{- $image := .Values.image -}}
image: "{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}"
imagePullPolicy: {{ $image.pullPolicy }}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}
