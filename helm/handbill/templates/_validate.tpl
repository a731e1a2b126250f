{{/* Refuses values that contradict each other: all at once, each with what to set. */}}
{{- define "handbill.validate" -}}
{{- $v := .Values -}}
{{- $sqlite := eq $v.store "sqlite" -}}
{{- $claim := include "handbill.claim" . -}}
{{- $replicas := kindIs "invalid" $v.replicaCount | ternary -1 $v.replicaCount | int -}}
{{- $scaled := ($v.autoscaling).enabled | default false -}}
{{- $routed := or ($v.ingress).enabled ($v.httpRoute).enabled -}}
{{- $baseUrl := $v.baseUrl | default "" }}{{ $proxies := $v.trustedProxies | default list }}{{ $redis := ($v.redis).url | default "" -}}
{{- $faults := list -}}
{{- range list
    (list (not ($v.image).repository) "image.repository is not set: build the image with deploy/Dockerfile, push it, and name it, e.g. registry.example/handbill")
    (list (not (regexMatch "^https?://[^/?#@[:space:]]+$" $baseUrl)) "baseUrl must be an origin without a path, e.g. https://pages.example")
    (list (not (regexMatch "^(https?://[^/?#@[:space:]]+)?$" ($v.mcpBaseUrl | default ""))) "mcpBaseUrl must be an origin without a path, e.g. https://mcp.pages.example")
    (list (not (regexMatch "^[a-z]" (include "handbill.fullname" .))) "names of Services begin with a letter: set fullnameOverride")
    (list (and $sqlite (or ($v.scylla).nodes $redis ($v.redis).existingSecret)) "store=sqlite uses neither ScyllaDB nor Redis: set store=scylla, or remove scylla.nodes and redis")
    (list (and $sqlite (gt $replicas 1)) "store=sqlite has one replica: remove replicaCount, or set store=scylla")
    (list (and $sqlite $scaled) "store=sqlite has one replica: set autoscaling.enabled=false, or store=scylla")
    (list (not (or $sqlite ($v.scylla).nodes)) "store=scylla needs a database: set scylla.nodes to some of its nodes (host:port)")
    (list (not (or $sqlite $redis ($v.redis).existingSecret)) "store=scylla needs a Redis, in which replicas share their limits: set redis.url, or redis.existingSecret with the key url")
    (list (and (not $sqlite) (or ($v.persistence).existingClaim ($v.backup).schedule)) "store=scylla has no volume: remove persistence.existingClaim and backup.schedule, or set store=sqlite")
    (list (and ($v.backup).schedule (has (($v.backup).existingClaim | default "") (list "" $claim))) "backup.schedule needs backup.existingClaim, a claim of its own")
    (list (and $scaled (ne $replicas -1)) "replicaCount and autoscaling.enabled both set the number of replicas: remove one")
    (list (and $scaled (not (dig "requests" "cpu" "" ($v.resources | default dict)))) "autoscaling.enabled needs resources.requests.cpu")
    (list (gt (int ($v.autoscaling).minReplicas) (int ($v.autoscaling).maxReplicas)) "autoscaling.minReplicas is above autoscaling.maxReplicas")
    (list (and (($v.scylla).tls).clientCertificate (not (($v.scylla).tls).existingSecret)) "scylla.tls.clientCertificate needs scylla.tls.existingSecret")
    (list (contains "@" $redis) "redis.url contains a login, which the workload would show: put the whole address into redis.existingSecret under the key url")
    (list (and ($v.redis).tlsSecret $redis (not (contains "rediss://" $redis))) "redis.tlsSecret needs a redis.url that begins with rediss://")
    (list (and ($v.ingress).tlsSecret (not (and ($v.ingress).enabled (hasPrefix "https:" $baseUrl)))) "ingress.tlsSecret needs ingress.enabled and a baseUrl that begins with https://")
    (list (and ($v.httpRoute).enabled (not ($v.httpRoute).parentRefs)) "httpRoute.enabled needs httpRoute.parentRefs")
    (list (and $routed (not $proxies)) "behind an Ingress or HTTPRoute all clients would share one rate limit: set trustedProxies to the networks of the controller's pods")
    (list (regexMatch "/0+(,|$)" (join "," $proxies)) "trustedProxies contains a /0, so any client could claim any address: name the proxies' networks")
}}
{{- if index . 0 }}{{ $faults = append $faults (index . 1) }}{{ end -}}
{{- end -}}
{{- /* Pages do not move by themselves, whichever value names their store. A tool that only renders the chart finds nothing here. */ -}}
{{- $new := $sqlite | ternary (print "claim " $claim) "keyspace handbill" -}}
{{- range include "handbill.env" (list . "handbill.serverEnv") | fromYamlArray }}{{ if eq .name "HANDBILL_SCYLLA_KEYSPACE" }}{{ $new = print "keyspace " .value }}{{ end }}{{ end -}}
{{- range $kind := list "Deployment" "StatefulSet" -}}
{{- range (lookup "apps/v1" $kind $.Release.Namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $pod := dig "spec" "template" "spec" dict . }}{{ $old := eq $kind "Deployment" | ternary "keyspace handbill" "" -}}
{{- range $pod.volumes }}{{ if eq .name "data" }}{{ $old = dig "persistentVolumeClaim" "claimName" "" . | print "claim " }}{{ end }}{{ end -}}
{{- range $pod.containers }}{{ range .env }}{{ if eq .name "HANDBILL_SCYLLA_KEYSPACE" }}{{ $old = print "keyspace " .value }}{{ end }}{{ end }}{{ end -}}
{{- $is := list (get $labels "app.kubernetes.io/instance") (get $labels "app.kubernetes.io/component") (regexReplaceAll "-[0-9].*" (get $labels "helm.sh/chart") "") -}}
{{- if and (eq (toJson $is) (toJson (list $.Release.Name "server" $.Chart.Name))) (ne $old $new) -}}
{{- $faults = append $faults (printf "the pages of this release are with the %s %s (%s), and these values would start an empty store (%s): did you forget -f values.yaml? To start there on purpose, move the pages and delete the old workload first (docs/kubernetes.md)" $kind .metadata.name $old $new) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\nHandbill's values do not fit together:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}
