{{/* The program's settings: environment variables, and files for secrets. */}}

{{/* The environment of a container. A name that `extraEnv` also has is taken from there: server-side apply refuses duplicates.
     Takes a list: root, name of a template with the chart's own variables. */}}
{{- define "handbill.env" -}}
{{- $extra := (index . 0).Values.extraEnv | default list -}}
{{- $taken := dict }}{{ range $extra }}{{ $_ := set $taken .name true }}{{ end -}}
{{- $env := list -}}
{{- range include (index . 1) (index . 0) | fromYamlArray }}{{ if not (hasKey $taken .name) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- concat $env $extra | toYaml -}}
{{- end -}}

{{/* Variables for a map from flags to values. An empty one is left out. */}}
{{- define "handbill.variables" -}}
{{- range $flag, $value := . }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ else if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- { name: HANDBILL_{{ $flag | upper | replace "-" "_" }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end }}
{{- end -}}

{{/* How a replica ends: load balancers notice for `drain-delay`, then requests in flight have `drain-timeout`, in s or m. SQLite has no
     other replica that they could choose. The process ends itself 3 s after that. */}}
{{- define "handbill.drain" -}}
{{- $settings := .Values.settings | default dict }}{{ $seconds := 5 -}}
{{- range $flag, $default := dict "drain-delay" (eq .Values.store "scylla" | ternary "5s" "0s") "drain-timeout" "15s" }}
{{- $time := index $settings $flag | default $default }}
{{- $seconds = regexFind "^[0-9]+" $time | int | mul (hasSuffix "m" $time | ternary 60 1) | add $seconds }}
{{ $flag }}: {{ $time }}
{{- end }}
grace: {{ $seconds }}
{{- end -}}

{{- define "handbill.serverEnv" -}}
{{- $v := .Values }}{{ $sqlite := eq $v.store "sqlite" -}}
{{- $host := regexMatch "IPv6|DualStack" (toJson $v.service.spec) | ternary "[::]" "0.0.0.0" -}}
{{- $own := dict "listen" (print $host ":8080") "admin-listen" (print $host ":9090") "base-url" $v.baseUrl "mcp-base-url" $v.mcpBaseUrl "trusted-proxies" $v.trustedProxies -}}
{{- $own = merge $own (dict "blocklist-file" (and $v.blocklistConfigMap "/etc/handbill/blocklist/blocklist")) (omit (include "handbill.drain" . | fromYaml) "grace") -}}
{{- include "handbill.variables" (merge dict ($v.settings | default dict) $own (ternary (dict "store" "sqlite" "data-dir" "/data") dict $sqlite)) }}
{{- if not $sqlite }}
{{- include "handbill.scyllaEnv" . }}
{{- with $v.redis }}
{{- include "handbill.variables" (dict "redis-url" .url "redis-password-file" (and .url .existingSecret "/etc/handbill/redis/password") "redis-ca-file" (and .tlsSecret "/etc/handbill/redis-tls/ca.crt")) }}
{{- if not .url }}
- { name: HANDBILL_REDIS_URL, valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: url } } }
{{- else if .existingSecret }}
- { name: HANDBILL_REDIS_USERNAME, valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: username, optional: true } } }
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How `serve` and `migrate` reach the database. */}}
{{- define "handbill.scyllaEnv" -}}
{{- with .Values.scylla -}}
{{- $files := dict "scylla-password-file" (and .existingSecret "/etc/handbill/scylla/password") "scylla-ca-file" (and (.tls).existingSecret "/etc/handbill/scylla-tls/ca.crt") -}}
{{- $certificate := and (.tls).clientCertificate "/etc/handbill/scylla-tls/tls.crt,/etc/handbill/scylla-tls/tls.key" | default "" -}}
{{- $names := dict "store" "scylla" "scylla-nodes" .nodes "scylla-keyspace" .keyspace "scylla-datacenter" .datacenter "scylla-consistency" .consistency -}}
{{- include "handbill.variables" (merge $names $files (dict "scylla-client-cert-file" $certificate "scylla-replication-factor" .replicationFactor)) }}
{{- with .existingSecret }}
- { name: HANDBILL_SCYLLA_USERNAME, valueFrom: { secretKeyRef: { name: {{ . | quote }}, key: username } } }
{{- end }}
{{- end }}
{{- end -}}

{{/* Mounted Secrets, as a YAML map from the name of the volume to the Secret. A mounted file follows its Secret; a variable does not.
     Takes a list: root, prefix of the volumes' names ("" for all that a replica has). */}}
{{- define "handbill.secrets" -}}
{{- $values := (index . 0).Values -}}
{{- $scylla := $values.scylla | default dict }}{{ $redis := $values.redis | default dict -}}
{{- $secrets := dict "scylla" $scylla.existingSecret "scylla-tls" ($scylla.tls).existingSecret "redis" (and $redis.url $redis.existingSecret) "redis-tls" $redis.tlsSecret -}}
{{- range $name, $secret := $secrets }}
{{- if and $secret (hasPrefix (index $ 1) $name) (eq $values.store "scylla") }}
{{ $name }}: {{ $secret | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Volumes of a pod, and their mounts. Take the same list, and the volumes the source of the store's own volume. In a cluster this has
     the admin socket alone. */}}
{{- define "handbill.volumes" -}}
{{- $values := (index . 0).Values }}{{ $volumes := list -}}
{{- if not (index . 1) -}}
{{- $volumes = append $volumes (merge (dict "name" (eq $values.store "sqlite" | ternary "data" "run")) (index . 2)) -}}
{{- with $values.blocklistConfigMap }}{{ $volumes = append $volumes (dict "name" "blocklist" "configMap" (dict "name" .)) }}{{ end -}}
{{- end -}}
{{- range $name, $secret := include "handbill.secrets" . | fromYaml -}}
{{- $volumes = append $volumes (dict "name" $name "secret" (dict "secretName" $secret "defaultMode" 0440)) -}}
{{- end -}}
{{- concat $volumes ($values.extraVolumes | default list) | toYaml -}}
{{- end -}}
{{- define "handbill.volumeMounts" -}}
{{- $values := (index . 0).Values }}{{ $mounts := list -}}
{{- if not (index . 1) -}}
{{- $mounts = append $mounts (eq $values.store "sqlite" | ternary (dict "name" "data" "mountPath" "/data") (dict "name" "run" "mountPath" "/run/handbill")) -}}
{{- if $values.blocklistConfigMap }}{{ $mounts = append $mounts (dict "name" "blocklist" "mountPath" "/etc/handbill/blocklist" "readOnly" true) }}{{ end -}}
{{- end -}}
{{- range $name, $_ := include "handbill.secrets" . | fromYaml -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" (print "/etc/handbill/" $name) "readOnly" true) -}}
{{- end -}}
{{- concat $mounts ($values.extraVolumeMounts | default list) | toYaml -}}
{{- end -}}
