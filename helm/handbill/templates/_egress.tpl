{{/* Entries of `egress` that several NetworkPolicies share. */}}

{{/* DNS servers. */}}
{{- define "handbill.egressToNames" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts | default (list 53) }}
    - { port: {{ int . }}, protocol: UDP }
    - { port: {{ int . }}, protocol: TCP }
    {{- end }}
{{- end -}}

{{/* The database: the bundled one, or any address on the ports of the operator's nodes. */}}
{{- define "handbill.egressToScylla" -}}
{{- $ports := list -}}
{{- range splitList "," (include "handbill.scyllaNodes" .) }}{{ if . }}{{ $ports = append $ports (regexFind "[0-9]+$" . | int) }}{{ end }}{{ end -}}
- ports:
    {{- range uniq $ports }}
    - port: {{ . }}
    {{- end }}
  {{- if include "handbill.bundledScylla" . }}
  to:
    - podSelector:
        matchLabels: {{- include "handbill.selectorLabels" (dict "root" . "component" "scylla") | nindent 10 }}
  {{- end }}
{{- end -}}
