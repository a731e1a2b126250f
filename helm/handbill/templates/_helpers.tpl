{{/* Names, labels, images, and the fields that every pod shares. */}}

{{/* The prefix of every object's name. It has at most 40 characters, so that names with suffixes from here and from Kubernetes stay
     within 63. */}}
{{- define "handbill.fullname" -}}
{{- $part := .Values.nameOverride | default "handbill" -}}
{{- $name := .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains $part $name -}}
{{ $name }}
{{- else -}}
{{ .Release.Name | trunc (int (sub 39 (len $part))) | trimSuffix "-" }}-{{ $part }}
{{- end -}}
{{- end -}}

{{/* Labels that never change and select pods. Takes a dict of `root` and `component`. */}}
{{- define "handbill.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default "handbill" | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The labels that the chart itself gives an object. Takes a dict of `root` and `component`. */}}
{{- define "handbill.labels" -}}
{{ include "handbill.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The metadata of an object: its name, labels and annotations. Takes a dict of `root`, `component`, `name` and optionally:
       from      the values of the object, of which `labels` and `annotations` are used
       labels, annotations   those that the chart sets for this object
     The chart's own come first, then those of the object, then `commonLabels` and `commonAnnotations`. */}}
{{- define "handbill.metadata" -}}
{{- $from := .from | default dict -}}
{{- $labels := include "handbill.labels" . | fromYaml -}}
name: {{ .name | quote }}
labels:
  {{- mergeOverwrite dict (.root.Values.commonLabels | default dict) ($from.labels | default dict) $labels (.labels | default dict) | toYaml | nindent 2 }}
{{- with mergeOverwrite dict (.root.Values.commonAnnotations | default dict) ($from.annotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The metadata of a pod, as of an object, but from `podLabels` and `podAnnotations`. With `selected` it has only those of the
     chart's labels that stay the same from version to version. */}}
{{- define "handbill.podMetadata" -}}
{{- $values := .root.Values -}}
{{- $from := .from | default dict -}}
{{- $labels := include (ternary "handbill.selectorLabels" "handbill.labels" (.selected | default false)) . | fromYaml -}}
labels:
  {{- mergeOverwrite dict ($values.commonLabels | default dict) ($values.podLabels | default dict) ($from.podLabels | default dict) $labels | toYaml | nindent 2 }}
{{- with mergeOverwrite dict ($values.commonAnnotations | default dict) ($values.podAnnotations | default dict) ($from.podAnnotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image's reference. Takes a dict of `root`, `image` (the values) and `tag` (the default of its tag). */}}
{{- define "handbill.imageOf" -}}
{{- $registry := ((.root.Values.global).imageRegistry) | default .image.registry -}}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .image.repository }}:{{ .image.tag | default .tag }}
{{- with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "handbill.image" -}}
{{ include "handbill.imageOf" (dict "root" . "image" .Values.image "tag" .Chart.AppVersion) }}
{{- end -}}

{{- define "handbill.replicas" -}}
{{- if kindIs "invalid" .Values.replicaCount -}}
{{ eq .Values.mode "cluster" | ternary 3 1 }}
{{- else -}}
{{ int .Values.replicaCount }}
{{- end -}}
{{- end -}}

{{/* The host of an origin in lower case, as Kubernetes requires it in a route. */}}
{{- define "handbill.hostOf" -}}
{{- $address := regexReplaceAll "^https?://" . "" -}}
{{- regexReplaceAll ":[0-9]+$" $address "" | lower -}}
{{- end -}}
{{- define "handbill.host" -}}
{{- include "handbill.hostOf" .Values.baseUrl -}}
{{- end -}}

{{/* A list of hosts, or the host of baseUrl if it is empty, and the host of its own for the tools. Comma-separated. */}}
{{- define "handbill.hosts" -}}
{{- $hosts := join "," .hosts | lower | default (include "handbill.host" .root) | splitList "," -}}
{{- with .root.Values.mcp.baseUrl -}}{{- $hosts = append $hosts (include "handbill.hostOf" .) -}}{{- end -}}
{{ $hosts | uniq | join "," }}
{{- end -}}

{{/* The hosts of the Ingress and of the HTTPRoute, comma-separated. */}}
{{- define "handbill.ingressHosts" -}}
{{ include "handbill.hosts" (dict "hosts" .Values.ingress.hosts "root" .) }}
{{- end -}}
{{- define "handbill.routeHosts" -}}
{{ include "handbill.hosts" (dict "hosts" .Values.httpRoute.hostnames "root" .) }}
{{- end -}}

{{/* The name of the claim with the embedded store's volume. */}}
{{- define "handbill.claim" -}}
{{ .Values.persistence.existingClaim | default (printf "%s-data" (include "handbill.fullname" .)) }}
{{- end -}}

{{/* The line that names a storage class. An empty value gives no line, which means the cluster's default. `-` gives an empty
     class, which means none, as is the custom in Helm charts. */}}
{{- define "handbill.storageClass" -}}
{{- if . -}}
storageClassName: {{ eq . "-" | ternary "" . | quote }}
{{- end -}}
{{- end -}}

{{/* A security context as this cluster takes it. OpenShift gives each namespace its own range of users and groups, and refuses
     pods that name others, so these fields are left out there. Takes a list of the root and the context. */}}
{{- define "handbill.adapted" -}}
{{- $root := index . 0 -}}
{{- $how := (((($root.Values.global).compatibility).openshift).adaptSecurityContext) | default "auto" -}}
{{- $context := index . 1 | default dict -}}
{{- if or (eq $how "force") (and (eq $how "auto") ($root.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" "seLinuxOptions" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{- define "handbill.podSecurityContext" -}}
{{ include "handbill.adapted" (list . .Values.podSecurityContext) }}
{{- end -}}

{{- define "handbill.securityContext" -}}
{{ include "handbill.adapted" (list . .Values.securityContext) }}
{{- end -}}

{{/* The name of the service account, or nothing for the namespace's default. */}}
{{- define "handbill.serviceAccount" -}}
{{- if (.Values.serviceAccount).create -}}
{{ .Values.serviceAccount.name | default (include "handbill.fullname" .) }}
{{- else -}}
{{ (.Values.serviceAccount).name }}
{{- end -}}
{{- end -}}

{{/* Fields that every pod of the chart shares: where it runs, and as whom. Takes a dict of `root` and `from`, the values that replace
     the common ones for this pod; a value there that is null or missing replaces nothing. Service links are off, since Kubernetes
     would inject HANDBILL_… variables for the Services, and the program would take them for settings. */}}
{{- define "handbill.podDefaults" -}}
{{- $values := .root.Values -}}
{{- $from := .from | default dict -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with concat ((($values.global).imagePullSecrets) | default list) ($values.imagePullSecrets | default list) }}
imagePullSecrets: {{- toYaml (uniq .) | nindent 2 }}
{{- end }}
{{- with include "handbill.serviceAccount" .root }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "runtimeClassName" "schedulerName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- $value := index $from $name }}
{{- if kindIs "invalid" $value }}{{ $value = index $values $name }}{{ end }}
{{- if $value }}
{{ $name }}:{{ if kindIs "string" $value }} {{ $value | quote }}{{ else }}{{ toYaml $value | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How replicas spread over nodes and zones. Constraints of the operator without a selector count the replicas. */}}
{{- define "handbill.spread" -}}
{{- $selector := dict "matchLabels" (include "handbill.selectorLabels" (dict "root" . "component" "server") | fromYaml) -}}
{{- $constraints := list -}}
{{- if kindIs "invalid" .Values.topologySpreadConstraints -}}
{{- if eq .Values.mode "cluster" -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- /* Two replicas on one node are better than one replica too few. */ -}}
{{- $constraints = append $constraints (dict "topologyKey" . "maxSkew" 1 "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $selector "matchLabelKeys" (list "pod-template-hash")) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $constraints = append $constraints (merge dict . (dict "labelSelector" $selector)) -}}
{{- end -}}
{{- end -}}
{{- with $constraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
