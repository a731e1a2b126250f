{{/* Entries of `egress` that several NetworkPolicies share. */}}

{{/* DNS servers. */}}
{{- define "handbill.egressToNames" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts | default (list 53) }}
    - { port: {{ int . }}, protocol: UDP }
    - { port: {{ int . }}, protocol: TCP }
    {{- end }}
{{- end -}}

{{/* The port on which a client chooses ScyllaDB's shard, or nothing. A node tells its clients this port. */}}
{{- define "handbill.shardAwarePort" -}}
{{- $port := .Values.scylla.shardAwarePort -}}
{{- if kindIs "invalid" $port -}}
{{ empty .Values.scylla.tls.existingSecret | ternary 19042 19142 }}
{{- else if int $port -}}
{{ int $port }}
{{- end -}}
{{- end -}}

{{/* The peers that can reach the operators' port: those of a NetworkPolicy, as YAML. */}}
{{- define "handbill.operators" -}}
{{- $peers := .Values.networkPolicy.operators | default list -}}
{{- $namespaces := concat (.Values.networkPolicy.operatorNamespaces | default list) (compact (list .Values.serviceMonitor.namespace)) | uniq -}}
{{- if has "*" $namespaces -}}
{{- $peers = append $peers (dict "namespaceSelector" dict) -}}
{{- else if $namespaces -}}
{{- $in := dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" $namespaces -}}
{{- $peers = append $peers (dict "namespaceSelector" (dict "matchExpressions" (list $in))) -}}
{{- end -}}
{{- with $peers }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The database: any address on the ports of its nodes. */}}
{{- define "handbill.egressToScylla" -}}
{{- $ports := list -}}
{{- range .Values.scylla.nodes }}{{ $ports = append $ports (regexFind "[0-9]+$" . | int) }}{{ end -}}
{{- with include "handbill.shardAwarePort" . }}{{ $ports = append $ports (int .) }}{{ end -}}
- ports:
    {{- range uniq $ports }}
    - port: {{ . }}
    {{- end }}
{{- end -}}
