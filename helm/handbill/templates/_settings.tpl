{{/* The program's settings: environment variables, and files for secrets. */}}

{{/* The environment of a container. A name that `extraEnv` also has is taken from there: server-side apply refuses duplicates.
     Takes a list: root, name of a template with the chart's own variables. */}}
{{- define "handbill.env" -}}
{{- $extra := (index . 0).Values.extraEnv -}}
{{- $taken := dict }}{{ range $extra }}{{ $_ := set $taken .name true }}{{ end -}}
{{- $env := list -}}
{{- range include (index . 1) (index . 0) | fromYamlArray }}{{ if not (hasKey $taken .name) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- concat $env $extra | toYaml -}}
{{- end -}}

{{- define "handbill.serverEnv" -}}
{{- $host := regexMatch "IPv6|DualStack" (toJson .Values.service.spec) | ternary "[::]" "0.0.0.0" -}}
- { name: HANDBILL_LISTEN, value: "{{ $host }}:8080" }
- { name: HANDBILL_ADMIN_LISTEN, value: "{{ $host }}:9090" }
- { name: HANDBILL_BASE_URL, value: {{ .Values.baseUrl | quote }} }
{{- with .Values.mcpBaseUrl }}
- { name: HANDBILL_MCP_BASE_URL, value: {{ . | quote }} }
{{- end }}
{{- with .Values.trustedProxies }}
- { name: HANDBILL_TRUSTED_PROXIES, value: {{ join "," . | quote }} }
{{- end }}
{{- /* The sleep before SIGTERM takes its place. */}}
- { name: HANDBILL_DRAIN_DELAY, value: 0s }
{{- if .Values.blocklistConfigMap }}
- { name: HANDBILL_BLOCKLIST_FILE, value: /etc/handbill/blocklist/blocklist }
{{- end }}
{{- range $flag, $value := .Values.settings }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ else if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{- if ne (toString $value) "" }}
- { name: HANDBILL_{{ $flag | upper | replace "-" "_" }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end }}
{{- if eq .Values.store "sqlite" }}
- { name: HANDBILL_STORE, value: sqlite }
- { name: HANDBILL_DATA_DIR, value: /data }
{{- else }}
{{ include "handbill.scyllaEnv" . }}
{{- with .Values.redis }}
{{- if .url }}
- { name: HANDBILL_REDIS_URL, value: {{ .url | quote }} }
{{- if .existingSecret }}
- { name: HANDBILL_REDIS_USERNAME, valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: username, optional: true } } }
- { name: HANDBILL_REDIS_PASSWORD_FILE, value: /etc/handbill/redis/password }
{{- end }}
{{- else }}
- { name: HANDBILL_REDIS_URL, valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: url } } }
{{- end }}
{{- if .tlsSecret }}
- { name: HANDBILL_REDIS_CA_FILE, value: /etc/handbill/redis-tls/ca.crt }
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How `serve` and `migrate` reach the database. */}}
{{- define "handbill.scyllaEnv" -}}
{{- with .Values.scylla -}}
- { name: HANDBILL_STORE, value: scylla }
- { name: HANDBILL_SCYLLA_NODES, value: {{ join "," .nodes | quote }} }
- { name: HANDBILL_SCYLLA_KEYSPACE, value: {{ .keyspace | quote }} }
{{- with .datacenter }}
- { name: HANDBILL_SCYLLA_DATACENTER, value: {{ . | quote }} }
{{- end }}
- { name: HANDBILL_SCYLLA_CONSISTENCY, value: {{ .consistency }} }
- { name: HANDBILL_SCYLLA_REPLICATION_FACTOR, value: {{ .replicationFactor | int | quote }} }
{{- if .existingSecret }}
- { name: HANDBILL_SCYLLA_USERNAME, valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: username } } }
- { name: HANDBILL_SCYLLA_PASSWORD_FILE, value: /etc/handbill/scylla/password }
{{- end }}
{{- if .tls.existingSecret }}
- { name: HANDBILL_SCYLLA_CA_FILE, value: /etc/handbill/scylla-tls/ca.crt }
{{- end }}
{{- if .tls.clientCertificate }}
- { name: HANDBILL_SCYLLA_CLIENT_CERT_FILE, value: "/etc/handbill/scylla-tls/tls.crt,/etc/handbill/scylla-tls/tls.key" }
{{- end }}
{{- end }}
{{- end -}}

{{/* Mounted Secrets, as a YAML map from the name of the volume to the Secret. A mounted file follows its Secret; a variable does not.
     Takes a list: root, prefix of the volumes' names. */}}
{{- define "handbill.secrets" -}}
{{- $values := (index . 0).Values -}}
{{- $redis := and $values.redis.url $values.redis.existingSecret -}}
{{- $secrets := dict "scylla" $values.scylla.existingSecret "scylla-tls" $values.scylla.tls.existingSecret "redis" $redis "redis-tls" $values.redis.tlsSecret -}}
{{- range $name, $secret := $secrets }}
{{- if and $secret (hasPrefix (index $ 1) $name) (eq $values.store "scylla") }}
{{ $name }}: {{ $secret | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Volumes of these Secrets, and their mounts. Take the same list. */}}
{{- define "handbill.secretVolumes" -}}
{{- range $name, $secret := include "handbill.secrets" . | fromYaml }}
- { name: {{ $name }}, secret: { secretName: {{ $secret | quote }}, defaultMode: 0440 } }
{{- end }}
{{- end -}}
{{- define "handbill.secretMounts" -}}
{{- range $name, $_ := include "handbill.secrets" . | fromYaml }}
- { name: {{ $name }}, mountPath: /etc/handbill/{{ $name }}, readOnly: true }
{{- end }}
{{- end -}}
