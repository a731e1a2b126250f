{{/* Turns the values into the program's settings: environment variables, and files for secrets. */}}

{{/* Networks whose forwarding header Handbill trusts, comma-separated. Behind an Ingress the peer is a pod of the controller,
     and pods have private addresses in nearly every cluster (RFC 1918, RFC 6598, RFC 4193). */}}
{{- define "handbill.trustedProxies" -}}
{{- if not (kindIs "invalid" .Values.trustedProxies) -}}
{{ join "," .Values.trustedProxies }}
{{- else if or .Values.ingress.enabled .Values.httpRoute.enabled -}}
10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7
{{- end -}}
{{- end -}}

{{/* A variable from a Secret. Takes a list of its name, the Secret and the key. */}}
{{- define "handbill.secretVariable" }}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 | quote }}
      key: {{ index . 2 | quote }}
{{- end -}}

{{/* One environment variable, or nothing if the value is empty. Takes a list of name and value. */}}
{{- define "handbill.variable" -}}
{{- $value := index . 1 | toString -}}
{{- if $value }}
- name: {{ index . 0 }}
  value: {{ $value | quote }}
{{- end -}}
{{- end -}}

{{/* The environment of a container: the chart's own variables, from the define `own`, and `extraEnv`. A name that is in both is
     taken from `extraEnv` alone, since server-side apply refuses duplicate names. */}}
{{- define "handbill.env" -}}
{{- $said := list -}}
{{- range .root.Values.extraEnv }}{{ $said = append $said .name }}{{ end -}}
{{- $variables := list -}}
{{- range include .own .root | fromYamlArray }}{{ if not (has .name $said) }}{{ $variables = append $variables . }}{{ end }}{{ end -}}
{{- concat $variables (.root.Values.extraEnv | default list) | toYaml -}}
{{- end -}}

{{/* The address that the listeners bind to. Linux takes IPv4 on `[::]` too. */}}
{{- define "handbill.listenHost" -}}
{{- if .Values.listenHost -}}
{{ .Values.listenHost }}
{{- else if or (has "IPv6" .Values.service.ipFamilies) (has .Values.service.ipFamilyPolicy (list "PreferDualStack" "RequireDualStack")) -}}
[::]
{{- else -}}
0.0.0.0
{{- end -}}
{{- end -}}

{{/* All settings of `serve`. */}}
{{- define "handbill.serverEnv" -}}
- name: HANDBILL_LISTEN
  value: "{{ include "handbill.listenHost" . }}:8080"
- name: HANDBILL_ADMIN_LISTEN
  value: "{{ include "handbill.listenHost" . }}:9090"
{{- include "handbill.variable" (list "HANDBILL_BASE_URL" .Values.baseUrl) }}
{{- include "handbill.variable" (list "HANDBILL_TRUSTED_PROXIES" (include "handbill.trustedProxies" .)) }}
{{- include "handbill.variable" (list "HANDBILL_DRAIN_DELAY" (printf "%ds" (int .Values.drain.delaySeconds))) }}
{{- include "handbill.variable" (list "HANDBILL_DRAIN_TIMEOUT" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- include "handbill.variable" (list "HANDBILL_CREATE_LIMIT" (int .Values.limits.create)) }}
{{- include "handbill.variable" (list "HANDBILL_EDIT_LIMIT" (int .Values.limits.edit)) }}
{{- include "handbill.variable" (list "HANDBILL_TOKEN_LIMIT" (int .Values.limits.token)) }}
{{- include "handbill.variable" (list "HANDBILL_RATE_WINDOW" .Values.limits.window) }}
{{- include "handbill.variable" (list "HANDBILL_LIMIT_NETWORKS" (join "," .Values.limits.networks)) }}
{{- with .Values.edge }}
{{- include "handbill.variable" (list "HANDBILL_EDGE_MAX_AGE" .maxAge) }}
{{- end }}
{{- with .Values.moderation }}
{{- include "handbill.variable" (list "HANDBILL_ABUSE_CONTACT" .abuseContact) }}
{{- include "handbill.variable" (list "HANDBILL_NOINDEX_ALL" (ternary "true" "" .noindexAll)) }}
{{- if .blocklistConfigMap }}
{{- include "handbill.variable" (list "HANDBILL_BLOCKLIST_FILE" "/etc/handbill/blocklist/blocklist") }}
{{- end }}
{{- if .tokenSecret }}
{{- include "handbill.variable" (list "HANDBILL_ADMIN_TOKEN_FILE" "/etc/handbill/operators/token") }}
{{- end }}
{{- end }}
{{- include "handbill.variable" (list "HANDBILL_MEMORY" .Values.memory) }}
{{- include "handbill.variable" (list "HANDBILL_ALLOWED_HOSTS" (join "," .Values.allowedHosts)) }}
{{- include "handbill.variable" (list "HANDBILL_MCP_BASE_URL" .Values.mcp.baseUrl) }}
{{- include "handbill.variable" (list "HANDBILL_SITE_LINKS" (join "," .Values.siteLinks)) }}
{{- include "handbill.variable" (list "HANDBILL_LOG_FORMAT" .Values.log.format) }}
{{- include "handbill.variable" (list "HANDBILL_LOG" .Values.log.filter) }}
{{- include "handbill.variable" (list "HANDBILL_OTLP_ENDPOINT" .Values.otlpEndpoint) }}
{{- if not (kindIs "invalid" .Values.otlpSampling) }}
{{- include "handbill.variable" (list "OTEL_TRACES_SAMPLER" (ternary "always_off" "parentbased_traceidratio" (eq (float64 .Values.otlpSampling) 0.0))) }}
{{- include "handbill.variable" (list "OTEL_TRACES_SAMPLER_ARG" .Values.otlpSampling) }}
{{- end }}
{{- if .Values.otlpEndpoint }}
{{- range $name, $field := dict "K8S_NODE_NAME" "spec.nodeName" "K8S_POD_NAME" "metadata.name" "K8S_POD_UID" "metadata.uid" }}
- name: {{ $name }}
  valueFrom:
    fieldRef:
      fieldPath: {{ $field }}
{{- end }}
{{- $attributes := list (printf "k8s.namespace.name=%s" .Release.Namespace) (printf "k8s.deployment.name=%s" (include "handbill.fullname" .)) "k8s.container.name=handbill" "k8s.node.name=$(K8S_NODE_NAME)" "k8s.pod.name=$(K8S_POD_NAME)" "k8s.pod.uid=$(K8S_POD_UID)" }}
{{- include "handbill.variable" (list "OTEL_RESOURCE_ATTRIBUTES" (join "," $attributes)) }}
{{- end }}
{{- if eq .Values.mode "embedded" }}
- name: HANDBILL_STORE
  value: embedded
- name: HANDBILL_DATA_DIR
  value: /data
{{- else }}
{{ include "handbill.scyllaEnv" . }}
{{- include "handbill.redisEnv" . }}
{{- end }}
{{- end -}}

{{/* The settings with which `serve` and `migrate` reach the database. */}}
{{- define "handbill.scyllaEnv" -}}
{{- $scylla := .Values.scylla -}}
{{- $copies := 3 -}}
{{- if not (kindIs "invalid" $scylla.replicationFactor) }}{{ $copies = $scylla.replicationFactor }}{{ end -}}
- name: HANDBILL_STORE
  value: scylla
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_NODES" (join "," .Values.scylla.nodes)) }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_KEYSPACE" $scylla.keyspace) }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_DATACENTER" $scylla.datacenter) }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_RACK" $scylla.rack) }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_REPLICATION_FACTOR" (int $copies)) }}
{{- if not (kindIs "invalid" $scylla.tablets) }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_TABLETS" $scylla.tablets) }}
{{- end }}
{{- if $scylla.auth.usernameKey }}
{{- include "handbill.secretVariable" (list "HANDBILL_SCYLLA_USERNAME" $scylla.auth.existingSecret $scylla.auth.usernameKey) }}
{{- else }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_USERNAME" $scylla.auth.username) }}
{{- end }}
{{- if $scylla.auth.existingSecret }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_PASSWORD_FILE" "/etc/handbill/scylla-login/password") }}
{{- end }}
{{- if $scylla.tls.existingSecret }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_CA_FILE" "/etc/handbill/scylla-tls/ca.crt") }}
{{- end }}
{{- if $scylla.tls.clientSecret }}
{{- include "handbill.variable" (list "HANDBILL_SCYLLA_CLIENT_CERT_FILE" "/etc/handbill/scylla-client/tls.crt,/etc/handbill/scylla-client/tls.key") }}
{{- end }}
{{- end -}}

{{- define "handbill.redisEnv" -}}
{{- $redis := .Values.redis -}}
{{- if $redis.urlsSecret }}
{{- include "handbill.secretVariable" (list "HANDBILL_REDIS_URL" $redis.urlsSecret $redis.urlsKey) }}
{{- else }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_URL" (join "," $redis.urls)) }}
{{- end }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_MODE" $redis.mode) }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_SENTINEL_MASTER" $redis.sentinelMaster) }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_TIMEOUT" $redis.timeout) }}
{{- if $redis.auth.usernameKey }}
{{- include "handbill.secretVariable" (list "HANDBILL_REDIS_USERNAME" $redis.auth.existingSecret $redis.auth.usernameKey) }}
{{- else }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_USERNAME" $redis.auth.username) }}
{{- end }}
{{- if $redis.auth.existingSecret }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_PASSWORD_FILE" "/etc/handbill/redis-login/password") }}
{{- end }}
{{- if $redis.tls.existingSecret }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_CA_FILE" "/etc/handbill/redis-tls/ca.crt") }}
{{- end }}
{{- if $redis.tls.clientSecret }}
{{- include "handbill.variable" (list "HANDBILL_REDIS_CLIENT_CERT_FILE" "/etc/handbill/redis-client/tls.crt,/etc/handbill/redis-client/tls.key") }}
{{- end }}
{{- end -}}

{{/* Secrets as files, since child processes, `kubectl describe` and crash reports do not show files, and since a changed file is
     read again. Each entry is the name of the volume, the Secret, and its keys with the names of their files. Takes the root; gives
     JSON. */}}
{{- define "handbill.secretFiles" -}}
{{- $files := list -}}
{{- with .Values.moderation }}{{ if .tokenSecret }}{{ $files = append $files (list "operators" .tokenSecret (dict "token" .tokenKey)) }}{{ end }}{{ end -}}
{{- if eq .Values.mode "cluster" -}}
{{- range $name := list "scylla" "redis" -}}
{{- $values := index $.Values $name -}}
{{- with $values.auth }}{{ if .existingSecret }}{{ $files = append $files (list (printf "%s-login" $name) .existingSecret (dict "password" .passwordKey)) }}{{ end }}{{ end -}}
{{- with $values.tls -}}
{{- if .existingSecret }}{{ $files = append $files (list (printf "%s-tls" $name) .existingSecret (dict "ca.crt" .caKey)) }}{{ end -}}
{{- if .clientSecret }}{{ $files = append $files (list (printf "%s-client" $name) .clientSecret (dict "tls.crt" .clientCertKey "tls.key" .clientKeyKey)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* Volumes of the Secrets, and the operator's own. Takes a dict of `root` and `prefix`; gives the Secrets whose names begin with `prefix`. */}}
{{- define "handbill.volumes" -}}
{{- $prefix := .prefix -}}
{{- range include "handbill.secretFiles" .root | fromJsonArray }}
{{- if hasPrefix $prefix (index . 0) }}
- name: {{ index . 0 }}
  secret:
    secretName: {{ index . 1 | quote }}
    defaultMode: 0440
    items:
      {{- range $path, $key := index . 2 }}
      - key: {{ $key | quote }}
        path: {{ $path }}
      {{- end }}
{{- end }}
{{- end }}
{{- if and (not $prefix) .root.Values.moderation.blocklistConfigMap }}
- name: blocklist
  configMap:
    name: {{ .root.Values.moderation.blocklistConfigMap | quote }}
    items:
      - key: {{ .root.Values.moderation.blocklistKey | quote }}
        path: blocklist
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ tpl (toYaml .) $.root }}
{{- end }}
{{- end -}}

{{- define "handbill.mounts" -}}
{{- $prefix := .prefix -}}
{{- range include "handbill.secretFiles" .root | fromJsonArray }}
{{- if hasPrefix $prefix (index . 0) }}
- name: {{ index . 0 }}
  mountPath: /etc/handbill/{{ index . 0 }}
  readOnly: true
{{- end }}
{{- end }}
{{- if and (not $prefix) .root.Values.moderation.blocklistConfigMap }}
- name: blocklist
  mountPath: /etc/handbill/blocklist
  readOnly: true
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ tpl (toYaml .) $.root }}
{{- end }}
{{- end -}}
