{{/* Refuses values that contradict each other: all at once, each with what to set. */}}
{{- define "handbill.validate" -}}
{{- $v := .Values -}}
{{- $sqlite := eq $v.store "sqlite" -}}
{{- $kind := ternary "StatefulSet" "Deployment" $sqlite -}}
{{- $replicas := kindIs "invalid" $v.replicaCount | ternary -1 $v.replicaCount | int -}}
{{- $routed := or $v.ingress.enabled $v.httpRoute.enabled -}}
{{- $faults := list -}}
{{- range list
    (list (not $v.image.repository) "image.repository is not set: build the image with deploy/Dockerfile, push it, and name it, e.g. registry.example/handbill")
    (list (not (regexMatch "^https?://[^/?#@[:space:]]+$" $v.baseUrl)) "baseUrl must be an origin without a path, e.g. https://pages.example")
    (list (not (regexMatch "^(https?://[^/?#@[:space:]]+)?$" $v.mcpBaseUrl)) "mcpBaseUrl must be an origin without a path, e.g. https://mcp.pages.example")
    (list (and $sqlite (or $v.scylla.nodes $v.redis.url $v.redis.existingSecret)) "store=sqlite uses neither ScyllaDB nor Redis: set store=scylla, or remove scylla.nodes and redis")
    (list (and $sqlite (gt $replicas 1)) "store=sqlite has one replica: remove replicaCount, or set store=scylla")
    (list (and $sqlite $v.autoscaling.enabled) "store=sqlite has one replica: set autoscaling.enabled=false, or store=scylla")
    (list (not (or $sqlite $v.scylla.nodes)) "store=scylla needs a database: set scylla.nodes to some of its nodes (host:port)")
    (list (not (or $sqlite $v.redis.url $v.redis.existingSecret)) "store=scylla needs a Redis, in which replicas share their limits: set redis.url, or redis.existingSecret with the key url")
    (list (and (not $sqlite) $v.persistence.existingClaim) "store=scylla has no volume: remove persistence.existingClaim, or set store=sqlite")
    (list (and $v.autoscaling.enabled (ne $replicas -1)) "replicaCount and autoscaling.enabled both set the number of replicas: remove one")
    (list (and $v.autoscaling.enabled (not (dig "requests" "cpu" "" $v.resources))) "autoscaling.enabled needs resources.requests.cpu")
    (list (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) "autoscaling.minReplicas is above autoscaling.maxReplicas")
    (list (and $v.scylla.tls.clientCertificate (not $v.scylla.tls.existingSecret)) "scylla.tls.clientCertificate needs scylla.tls.existingSecret")
    (list (contains "@" $v.redis.url) "redis.url contains a login, which the workload would show: put the whole address into redis.existingSecret under the key url")
    (list (and $v.redis.tlsSecret $v.redis.url (not (contains "rediss://" $v.redis.url))) "redis.tlsSecret needs a redis.url that begins with rediss://")
    (list (and $v.ingress.tlsSecret (not (and $v.ingress.enabled (hasPrefix "https:" $v.baseUrl)))) "ingress.tlsSecret needs ingress.enabled and a baseUrl that begins with https://")
    (list (and $v.httpRoute.enabled (not $v.httpRoute.parentRefs)) "httpRoute.enabled needs httpRoute.parentRefs")
    (list (and $routed (not $v.trustedProxies)) "behind an Ingress or HTTPRoute all clients would share one rate limit: set trustedProxies to the networks of the controller's pods")
    (list (regexMatch "/0+(,|$)" (join "," $v.trustedProxies)) "trustedProxies contains a /0, so any client could claim any address: name the proxies' networks")
}}
{{- if index . 0 }}{{ $faults = append $faults (index . 1) }}{{ end -}}
{{- end -}}
{{- /* Pages do not move by themselves. A tool that only renders the chart finds nothing here. */ -}}
{{- $own := include "handbill.selector" (list . "server") | fromYaml -}}
{{- range $other := list "Deployment" "StatefulSet" -}}
{{- range (lookup "apps/v1" $other $.Release.Namespace "").items -}}
{{- $labels := pick (.metadata.labels | default dict) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- if and (eq (toJson $labels) (toJson $own)) (or (ne $other $kind) (and $sqlite (ne .metadata.name (include "handbill.fullname" $)))) -}}
{{- $faults = append $faults (printf "the pages of this release are with the %s %s, and store=%s would start with an empty store: did you forget -f values.yaml? To change the store, move the pages and delete the old workload first (docs/kubernetes.md)" $other .metadata.name $v.store) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\nHandbill's values do not fit together:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}
