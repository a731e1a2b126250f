{{/* What migrate-job.yaml decides and runs. */}}

{{/* "true" or nothing: whether the schema is migrated before anything else is changed. Not where this release only brings the
     bundled database, since the Job would wait for what is made after it. What only renders the chart can look up nothing, and then
     too the Job is one beside everything else. */}}
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
  # The database may not be there yet: the container is tried again, in the same pod.
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
