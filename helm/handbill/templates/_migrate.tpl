{{/* The decision and the pod of migrate-job.yaml. */}}

{{/* "true" if the Job can run before anything else changes, else empty. It cannot if the upgrade itself adds the service account of
     its pod. A tool that only renders the chart cannot look anything up; the answer is then empty too. */}}
{{- define "handbill.runsFirst" -}}
{{- if .Release.IsUpgrade -}}
{{- if not (.Values.serviceAccount).create -}}
true
{{- else if lookup "v1" "ServiceAccount" .Release.Namespace (include "handbill.serviceAccount" .) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The pod of the Job. */}}
{{- define "handbill.migratePod" -}}
metadata:
  {{- include "handbill.podMetadata" (dict "root" . "component" "migrate" "from" .Values.migrate) | nindent 2 }}
spec:
  {{- include "handbill.podDefaults" (dict "root" . "from" .Values.migrate) | nindent 2 }}
  # The database may not exist yet: Kubernetes retries the container in the same pod.
  restartPolicy: OnFailure
  {{- with include "handbill.podSecurityContext" . }}
  securityContext: {{- . | nindent 4 }}
  {{- end }}
  {{- with .Values.migrate.initContainers }}
  initContainers: {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  containers:
    - name: migrate
      image: {{ include "handbill.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [migrate]
      env: {{- include "handbill.env" (dict "root" . "own" "handbill.scyllaEnv") | nindent 8 }}
      {{- with .Values.envFrom }}
      envFrom: {{- tpl (toYaml .) $ | nindent 8 }}
      {{- end }}
      resources: {{- toYaml .Values.migrate.resources | nindent 8 }}
      {{- with include "handbill.securityContext" . }}
      securityContext: {{- . | nindent 8 }}
      {{- end }}
      volumeMounts: {{- with include "handbill.mounts" (dict "root" . "prefix" "scylla-") | trim }}{{ . | nindent 8 }}{{ end }}
  volumes: {{- with include "handbill.volumes" (dict "root" . "prefix" "scylla-") | trim }}{{ . | nindent 4 }}{{ end }}
{{- end -}}
