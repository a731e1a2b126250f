{{/* The decision and the pod of migrate-job.yaml. */}}

{{/* "true" if the schema is migrated before anything else changes, else empty. If this release adds the bundled database, the Job
     cannot run first, since it would wait for a database that is made after it. A tool that only renders the chart cannot look
     anything up; then the Job runs alongside everything else too. */}}
{{- define "handbill.migratesFirst" -}}
{{- if .Release.IsUpgrade -}}
{{- if not (include "handbill.bundledScylla" .) -}}
true
{{- else if lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-scylla" (include "handbill.fullname" .)) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The pod of the Job. */}}
{{- define "handbill.migratePod" -}}
metadata:
  labels: {{- include "handbill.labels" (dict "root" . "component" "migrate") | nindent 4 }}
spec:
  {{- include "handbill.podDefaults" . | nindent 2 }}
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . | quote }}
  {{- end }}
  # The database may not exist yet: Kubernetes retries the container in the same pod.
  restartPolicy: OnFailure
  securityContext: {{- include "handbill.podSecurityContext" . | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: migrate
      image: {{ include "handbill.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [migrate]
      env: {{- include "handbill.env" (dict "root" . "own" "handbill.scyllaEnv") | nindent 8 }}
      resources: {{- toYaml .Values.migrate.resources | nindent 8 }}
      securityContext: {{- include "handbill.securityContext" . | nindent 8 }}
      volumeMounts:
        {{- with include "handbill.secretMounts" (dict "root" . "prefix" "scylla-") }}{{ trim . | nindent 8 }}{{ end }}
  volumes:
    {{- with include "handbill.secretVolumes" (dict "root" . "prefix" "scylla-") }}{{ trim . | nindent 4 }}{{ end }}
{{- end -}}
