{{/* The groups of the PrometheusRule: files/rules/ as the operator fits it. Takes the root; gives YAML. */}}
{{- define "handbill.ruleGroups" -}}
{{- $values := .Values.prometheusRule -}}
{{- $fullname := include "handbill.fullname" . -}}
{{- $groups := list -}}
{{- range $path, $content := .Files.Glob "files/rules/*.yaml" -}}
{{- $text := $content | toString | replace "docs/runbook.md" $values.runbookUrl -}}
{{- /* The alert on volumes finds them by the names of their claims. */ -}}
{{- if not (contains "handbill" $fullname) }}{{ $text = $text | replace ".*handbill.*" (printf ".*(handbill|%s).*" $fullname) }}{{ end -}}
{{- range ($text | fromYaml).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $rule := . -}}
{{- if .alert -}}
{{- $own := index ($values.alerts | default dict) .alert | default dict -}}
{{- if ne (toString $own.enabled) "false" -}}
{{- range $name := list "expr" "for" -}}
{{- with index $own $name }}{{ $_ := set $rule $name . }}{{ end -}}
{{- end -}}
{{- $severity := $own.severity | default (index ($values.severities | default dict) .labels.severity) | default .labels.severity -}}
{{- $_ := set . "labels" (mergeOverwrite dict ($values.alertLabels | default dict) .labels ($own.labels | default dict) (dict "severity" $severity)) -}}
{{- $_ := set . "annotations" (mergeOverwrite dict .annotations ($own.annotations | default dict)) -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- else -}}
{{- if eq .record "handbill:slo_budget:ratio" -}}
{{- with index ($values.objectives | default dict) .labels.slo -}}
{{- /* Decimal arithmetic, so that 99.95 leaves exactly 0.0005. */ -}}
{{- $_ := set $rule "expr" (printf "vector(%s)" (divf (subf 100 .) 100 | toString)) -}}
{{- end -}}
{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- if $rules }}{{ $groups = append $groups (mergeOverwrite dict . (dict "rules" $rules)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}
