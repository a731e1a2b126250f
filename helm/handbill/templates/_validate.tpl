{{/* Refuses values that contradict each other. It reports all contradictions at once, and each line says what to set. */}}
{{- define "handbill.contradictions" -}}
{{- $v := .Values -}}
{{- $cluster := eq $v.mode "cluster" -}}
{{- $faults := list -}}

{{- /* A Service's name begins with a letter and has no dots. */ -}}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" (include "handbill.fullname" .)) -}}
{{- $faults = append $faults (printf "no Service can have the name of this release, %q: choose a name that begins with a letter and has no dots, or set fullnameOverride" .Release.Name) -}}
{{- end -}}
{{- if not $v.mode -}}
{{- $faults = append $faults "mode is not set, and changing it later moves no pages: set one of\n      mode=embedded   one replica with its own volume, and nothing else to run\n      mode=cluster    any number of replicas over your ScyllaDB (or Cassandra 5) and Redis" -}}
{{- end -}}
{{- if not $v.image.repository -}}
{{- $faults = append $faults "image.repository is not set: build the image with deploy/Dockerfile, push it to your registry, and name it, for example --set image.repository=registry.example/handbill" -}}
{{- end -}}
{{- if not $v.baseUrl -}}
{{- $faults = append $faults "baseUrl is not set: give the public origin, for example --set baseUrl=https://pages.example" -}}
{{- else if not (regexMatch "^https?://([^][\\s/?#@:<>^|%\\\\]+|\\[[0-9a-fA-F:.]+\\])(:[0-9]{1,5})?$" $v.baseUrl) -}}
{{- $faults = append $faults (printf "baseUrl is %q: give an origin without a path or a login, for example https://pages.example" $v.baseUrl) -}}
{{- else -}}
{{- $port := regexFind ":[0-9]+$" $v.baseUrl | trimPrefix ":" -}}
{{- if and $port (or (lt (atoi $port) 1) (gt (atoi $port) 65535)) -}}
{{- $faults = append $faults (printf "baseUrl is %q, which has no valid port: give one from 1 to 65535, or leave it out" $v.baseUrl) -}}
{{- end -}}
{{- end -}}

{{- if eq $v.mode "embedded" -}}
{{- if and (not (kindIs "invalid" $v.replicaCount)) (ne (int $v.replicaCount) 1) -}}
{{- $faults = append $faults (printf "replicaCount is %d, but with mode=embedded one process owns the volume: set replicaCount=1, or mode=cluster for several replicas" (int $v.replicaCount)) -}}
{{- end -}}
{{- if $v.autoscaling.enabled -}}
{{- $faults = append $faults "autoscaling.enabled=true, but mode=embedded has one replica: set autoscaling.enabled=false or mode=cluster" -}}
{{- end -}}
{{- if $v.autoscaling.external -}}
{{- $faults = append $faults "autoscaling.external=true, but mode=embedded has one replica: set autoscaling.external=false or mode=cluster" -}}
{{- end -}}
{{- if $v.scylla.nodes -}}
{{- $faults = append $faults "scylla.nodes is set, but mode=embedded keeps pages on its volume: set mode=cluster, or remove scylla.nodes" -}}
{{- end -}}
{{- if or $v.redis.urls $v.redis.urlsSecret -}}
{{- $faults = append $faults "redis.urls or redis.urlsSecret is set, but mode=embedded counts limits in its one process: set mode=cluster, or remove it" -}}
{{- end -}}
{{- end -}}

{{- if $cluster -}}
{{- if not $v.scylla.nodes -}}
{{- $faults = append $faults "there is no database: set scylla.nodes to your nodes (host:port)" -}}
{{- end -}}
{{- if not (or $v.redis.urls $v.redis.urlsSecret) -}}
{{- $faults = append $faults "there is no Redis, and replicas share their limits in it: set redis.urls, or redis.urlsSecret" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (not (kindIs "invalid" $v.replicaCount)) -}}
{{- $faults = append $faults "replicaCount and autoscaling.enabled=true both decide the number of replicas: remove replicaCount, or set autoscaling.enabled=false" -}}
{{- end -}}
{{- if and $v.autoscaling.external (or $v.autoscaling.enabled (not (kindIs "invalid" $v.replicaCount))) -}}
{{- $faults = append $faults "autoscaling.external=true leaves the number of replicas to another autoscaler, but replicaCount or autoscaling.enabled=true decides it too: remove them, or set autoscaling.external=false" -}}
{{- end -}}
{{- if and (not (kindIs "invalid" $v.replicaCount)) (lt (int $v.replicaCount) 1) -}}
{{- $faults = append $faults "replicaCount is 0: set at least 1, or uninstall the release" -}}
{{- end -}}
{{- end -}}

{{- if and $v.autoscaling.enabled (not (or (dig "requests" "cpu" "" ($v.resources | default dict)) (dig "limits" "cpu" "" ($v.resources | default dict)))) -}}
{{- $faults = append $faults "autoscaling.enabled=true scales by the share of the requested CPU that is in use, but replicas request none: set resources.requests.cpu" -}}
{{- end -}}
{{- if and $v.autoscaling.activeRequests.enabled (not $v.autoscaling.enabled) -}}
{{- $faults = append $faults "autoscaling.activeRequests.enabled=true needs an autoscaler: set autoscaling.enabled=true, or remove it" -}}
{{- end -}}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) -}}
{{- $faults = append $faults (printf "autoscaling.minReplicas (%d) is above autoscaling.maxReplicas (%d): lower autoscaling.minReplicas, or raise autoscaling.maxReplicas" (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- end -}}

{{- range $name := list "scylla" "redis" -}}
{{- with index $v $name -}}
{{- if and .auth.usernameKey .auth.username -}}
{{- $faults = append $faults (printf "%s.auth.username and %s.auth.usernameKey are both set: remove one" $name $name) -}}
{{- end -}}
{{- if and .auth.usernameKey (not .auth.existingSecret) -}}
{{- $faults = append $faults (printf "%s.auth.usernameKey names no Secret: set %s.auth.existingSecret" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.scylla.tls.clientSecret (not $v.scylla.tls.existingSecret) -}}
{{- $faults = append $faults "scylla.tls.clientSecret needs scylla.tls.existingSecret: connections use TLS only with an authority" -}}
{{- end -}}
{{- with $v.scylla -}}
{{- if and .auth.username (not .auth.existingSecret) -}}
{{- $faults = append $faults "scylla.auth.username has no password: set scylla.auth.existingSecret to a Secret that holds it" -}}
{{- end -}}
{{- if and .auth.existingSecret (not .auth.username) (not .auth.usernameKey) -}}
{{- $faults = append $faults "scylla.auth.existingSecret has no user: set scylla.auth.username or scylla.auth.usernameKey" -}}
{{- end -}}
{{- end -}}

{{- with $v.redis -}}
{{- $tls := 0 -}}
{{- range .urls -}}
{{- if contains "@" . -}}
{{- $faults = append $faults "redis.urls contains a login, which would be readable in the Deployment: use redis.auth with an existing Secret, or redis.urlsSecret" -}}
{{- end -}}
{{- if hasPrefix "rediss://" . }}{{ $tls = add1 $tls }}{{ end -}}
{{- end -}}
{{- if and .urls .urlsSecret -}}
{{- $faults = append $faults "redis.urls and redis.urlsSecret are both set: remove one" -}}
{{- end -}}
{{- if and .urls (ne (int $tls) 0) (ne (int $tls) (len .urls)) -}}
{{- $faults = append $faults "redis.urls mixes redis:// and rediss://: use the same for all addresses" -}}
{{- end -}}
{{- if and .tls.clientSecret (not .urlsSecret) (eq (int $tls) 0) -}}
{{- $faults = append $faults "redis.tls.clientSecret is set, but no address in redis.urls begins with rediss://: use rediss://, or remove it" -}}
{{- end -}}
{{- if and .tls.existingSecret (not .urlsSecret) (eq (int $tls) 0) -}}
{{- $faults = append $faults "redis.tls.existingSecret is set, but no address in redis.urls begins with rediss://: use rediss://, or remove it" -}}
{{- end -}}
{{- if and (eq .mode "sentinel") (not .sentinelMaster) -}}
{{- $faults = append $faults "redis.mode=sentinel needs redis.sentinelMaster: set it to the name under which the sentinels know the master" -}}
{{- end -}}
{{- if and .sentinelMaster (ne .mode "sentinel") -}}
{{- $faults = append $faults "redis.sentinelMaster is set, but redis.mode is not sentinel: set redis.mode=sentinel, or remove redis.sentinelMaster" -}}
{{- end -}}
{{- if and (eq .mode "single") (gt (len .urls) 1) -}}
{{- $faults = append $faults "redis.mode=single takes one address, but redis.urls has several: give one, or set redis.mode to cluster or sentinel" -}}
{{- end -}}
{{- if and .auth.username (not .auth.existingSecret) -}}
{{- $faults = append $faults "redis.auth.username has no password: set redis.auth.existingSecret to a Secret that holds it" -}}
{{- end -}}
{{- end -}}

{{- if and $v.persistence.existingClaim $cluster -}}
{{- $faults = append $faults "persistence.existingClaim is set, but mode=cluster keeps pages in ScyllaDB: remove it, or set mode=embedded" -}}
{{- end -}}
{{- if and $v.ingress.tlsSecret (not $v.ingress.enabled) -}}
{{- $faults = append $faults "ingress.tlsSecret is set, but there is no Ingress: set ingress.enabled=true, or remove ingress.tlsSecret" -}}
{{- end -}}
{{- /* Kubernetes takes only DNS names there. Their last part is not a number. */ -}}
{{- $name := "^([*][.])?([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z]([-a-z0-9]*[a-z0-9])?$" -}}
{{- if and $v.ingress.enabled $v.baseUrl -}}
{{- range include "handbill.ingressHosts" . | splitList "," -}}
{{- if not (regexMatch $name .) -}}
{{- $faults = append $faults (printf "a host of the Ingress would be %q, which is not a DNS name: set ingress.hosts to DNS names, and use one of them in baseUrl" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.ingress.tlsSecret $v.ingress.tls -}}
{{- $faults = append $faults "ingress.tlsSecret and ingress.tls are both set: remove one" -}}
{{- end -}}
{{- if and $v.ingress.tls (not $v.ingress.enabled) -}}
{{- $faults = append $faults "ingress.tls is set, but there is no Ingress: set ingress.enabled=true, or remove ingress.tls" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled $v.baseUrl -}}
{{- range include "handbill.routeHosts" . | splitList "," -}}
{{- if not (regexMatch $name .) -}}
{{- $faults = append $faults (printf "a host of the HTTPRoute would be %q, which is not a DNS name: set httpRoute.hostnames to DNS names, and use one of them in baseUrl" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.ingress.tlsSecret (hasPrefix "http://" $v.baseUrl) -}}
{{- $faults = append $faults "ingress.tlsSecret is set, but baseUrl begins with http://: make it https://, or remove ingress.tlsSecret" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}
{{- $faults = append $faults "httpRoute.enabled=true needs a gateway: set httpRoute.parentRefs" -}}
{{- end -}}
{{- range $v.trustedProxies -}}
{{- if hasSuffix "/0" . -}}
{{- $faults = append $faults (printf "trustedProxies contains %s, so any client could claim any address and escape limits: give the proxies' networks" .) -}}
{{- end -}}
{{- end -}}
{{- $own := include "handbill.labels" (dict "root" . "component" "server") | fromYaml -}}
{{- range $place, $labels := dict "commonLabels" $v.commonLabels "podLabels" $v.podLabels "migrate.podLabels" $v.migrate.podLabels "tests.podLabels" ($v.tests).podLabels -}}
{{- range $label, $_ := $labels -}}
{{- if hasKey $own $label -}}
{{- $faults = append $faults (printf "%s contains %s, which the chart sets itself: remove it" $place $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $v.service -}}
{{- if and (ne .type "LoadBalancer") (or .loadBalancerClass .loadBalancerSourceRanges (not (kindIs "invalid" .allocateLoadBalancerNodePorts))) -}}
{{- $faults = append $faults (printf "service.type is %s, so service.loadBalancerClass, loadBalancerSourceRanges and allocateLoadBalancerNodePorts would do nothing: set service.type=LoadBalancer, or remove them" .type) -}}
{{- end -}}
{{- if and (eq .type "ClusterIP") (or .nodePort .externalTrafficPolicy) -}}
{{- $faults = append $faults "service.nodePort and service.externalTrafficPolicy do not apply to service.type=ClusterIP: set NodePort or LoadBalancer, or remove them" -}}
{{- end -}}
{{- if and (has "IPv6" .ipFamilies) (eq $v.listenHost "0.0.0.0") -}}
{{- $faults = append $faults "service.ipFamilies contains IPv6, but listenHost=0.0.0.0 takes IPv4 alone: set listenHost to [::], or leave it empty" -}}
{{- end -}}
{{- if and (eq .ipFamilyPolicy "SingleStack") (gt (len .ipFamilies) 1) -}}
{{- $faults = append $faults "service.ipFamilyPolicy=SingleStack takes one family, but service.ipFamilies has two: remove one, or set PreferDualStack" -}}
{{- end -}}
{{- end -}}
{{- with ($v.updateStrategy).rollingUpdate -}}
{{- if eq $v.updateStrategy.type "Recreate" -}}
{{- $faults = append $faults "updateStrategy.rollingUpdate does not apply to updateStrategy.type=Recreate: set it to null" -}}
{{- end -}}
{{- if and (has (toString .maxUnavailable) (list "0" "0%")) (has (toString .maxSurge) (list "0" "0%")) -}}
{{- $faults = append $faults "updateStrategy.rollingUpdate has maxUnavailable and maxSurge of 0, so no replica could be replaced: raise one" -}}
{{- end -}}
{{- end -}}
{{- $taken := list "data" "blocklist" -}}
{{- range include "handbill.secretFiles" . | fromJsonArray }}{{ $taken = append $taken (index . 0) }}{{ end -}}
{{- range $v.extraVolumes -}}
{{- if has .name $taken -}}
{{- $faults = append $faults (printf "extraVolumes contains %s, a name that is taken: choose another" .name) -}}
{{- end -}}
{{- $taken = append $taken .name -}}
{{- end -}}
{{- $taken = list "handbill" -}}
{{- range concat ($v.initContainers | default list) ($v.sidecars | default list) -}}
{{- if has .name $taken -}}
{{- $faults = append $faults (printf "initContainers and sidecars contain %s, a name that is taken: choose another" .name) -}}
{{- end -}}
{{- $taken = append $taken .name -}}
{{- end -}}
{{- $said := list -}}
{{- range $v.extraEnv -}}
{{- if has .name $said -}}
{{- $faults = append $faults (printf "extraEnv contains %s twice: remove one" .name) -}}
{{- end -}}
{{- $said = append $said .name -}}
{{- end -}}
{{- /* The program refuses these too, but only once a pod starts. */ -}}
{{- if gt (include "handbill.seconds" $v.limits.window | int64) 2678400 -}}
{{- $faults = append $faults (printf "limits.window is %s: give 31d at most" $v.limits.window) -}}
{{- end -}}
{{- if gt (include "handbill.seconds" $v.edge.maxAge | int64) 300 -}}
{{- $faults = append $faults (printf "edge.maxAge is %s: give 5m at most" $v.edge.maxAge) -}}
{{- end -}}
{{- $limit := dig "limits" "memory" "" ($v.resources | default dict) | toString -}}
{{- $limited := include "handbill.quantity" $limit | int64 -}}
{{- if $v.memory -}}
{{- $bytes := include "handbill.bytes" $v.memory | int64 -}}
{{- if or (lt $bytes 134217728) (gt $bytes 1099511627776) -}}
{{- $faults = append $faults (printf "memory is %s: give 128MiB to 1024GiB" $v.memory) -}}
{{- end -}}
{{- if and $limited (gt $bytes $limited) -}}
{{- $faults = append $faults (printf "memory is %s, but resources.limits.memory is %s: lower memory, or raise resources.limits.memory" $v.memory $limit) -}}
{{- end -}}
{{- end -}}
{{- if and $limited (lt $limited 134217728) -}}
{{- $faults = append $faults (printf "resources.limits.memory is %s: give at least 128Mi, or the largest requests do not fit" $limit) -}}
{{- end -}}
{{- $change := include "handbill.storeChange" . -}}
{{- if $change }}{{ $faults = append $faults $change }}{{ end -}}
{{- toJson (uniq $faults) -}}
{{- end -}}

{{/* The seconds of a duration such as 1h30m. */}}
{{- define "handbill.seconds" -}}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 "day" 86400 "days" 86400 -}}
{{- $seconds := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $seconds = add $seconds (mul (regexFind "^[0-9]+" . | int64) (index $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/* The bytes of a quantity of Kubernetes such as 512Mi; 0 if it has a form that nobody uses for memory. */}}
{{- define "handbill.quantity" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- if regexMatch "^[0-9]+(k|M|G|Ki|Mi|Gi)?$" . -}}
{{- mul (regexFind "^[0-9]+" . | int64) (index $units (regexFind "[A-Za-z]*$" .)) -}}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* The bytes of a size such as 32MiB. */}}
{{- define "handbill.bytes" -}}
{{- $units := dict "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (index $units (regexFind "[A-Za-z]+$" .)) -}}
{{- end -}}

{{/* The place of the pages, in words. The Deployment carries it as an annotation. */}}
{{- define "handbill.storePlace" -}}
{{- if eq .Values.mode "embedded" -}}
the volume of the claim {{ include "handbill.claim" . }}
{{- else -}}
the keyspace {{ .Values.scylla.keyspace }}
{{- end -}}
{{- end -}}

{{/* The refusal of an upgrade that would keep pages elsewhere, or nothing. It compares with the annotation of the release's Deployment
     in the cluster, found by its labels, since its name may change too. A tool that only renders the chart sees no Deployment, and
     then nothing is refused. */}}
{{- define "handbill.storeChange" -}}
{{- if and .Release.IsUpgrade (not .Values.allowStoreChange) -}}
{{- $new := include "handbill.storePlace" . -}}
{{- range (lookup "apps/v1" "Deployment" .Release.Namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $old := index (.metadata.annotations | default dict) "handbill/store" -}}
{{- if and $old (ne $old $new) (eq (index $labels "app.kubernetes.io/instance" | toString) $.Release.Name) (eq (index $labels "app.kubernetes.io/component" | toString) "server") -}}
this release keeps its pages in {{ $old }}, and these values would keep them in {{ $new }}, where none of them are: go back to the old values, or move the pages (docs/operate-cluster.md) and set allowStoreChange=true for this upgrade
{{- break -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "handbill.validate" -}}
{{- $faults := include "handbill.contradictions" . | fromJsonArray -}}
{{- if $faults -}}
{{- fail (printf "\n\nHandbill's values contradict each other:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}
