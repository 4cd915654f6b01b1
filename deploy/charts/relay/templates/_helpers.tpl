{{- define "relay.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "relay.selector" -}}
app.kubernetes.io/name: relay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "relay.labels" -}}
{{ include "relay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "relay.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "relay.secret" -}}
{{- default (include "relay.fullname" .) .Values.secrets.existingSecret -}}
{{- end -}}

{{/* The configuration: the values, and no port for metrics that nobody may see. */}}
{{- define "relay.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not .Values.metrics.enabled -}}
{{- $config = set $config "metrics" (dict "enabled" false) -}}
{{- end -}}
{{- with include "relay.proxies" . | fromYamlArray -}}
{{- $config = merge $config (dict "http" (dict "trustedproxies" .)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Something if the database is PostgreSQL, which needs no volume. */}}
{{- define "relay.postgres" -}}
{{- if hasPrefix "postgres" (lower (dig "database" "dialect" "sqlite" .Values.config)) }}yes{{ end -}}
{{- end -}}

{{/* Networks whose word about a client's address is taken: those of the Ingress and of the Gateway. */}}
{{- define "relay.proxies" -}}
{{- $proxies := list -}}
{{- if .Values.ingress.enabled -}}{{- $proxies = concat $proxies .Values.ingress.trustedProxies -}}{{- end -}}
{{- if .Values.httpRoute.enabled -}}{{- $proxies = concat $proxies .Values.httpRoute.trustedProxies -}}{{- end -}}
{{- $proxies | uniq | toYaml -}}
{{- end -}}

{{- define "relay.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{- if .name -}}{{ .name }}{{- else if .create -}}{{ include "relay.fullname" $ }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* How replicas are spread: as the values have it, and else over nodes and zones. */}}
{{- define "relay.spread" -}}
{{- if .Values.topologySpreadConstraints -}}
{{- toYaml .Values.topologySpreadConstraints -}}
{{- else if gt (int .Values.replicas) 1 -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "relay.selector" $ | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* A random text of the chart's own secret, so that the checksum of its other values, which anybody who may
see the pod can read, does not help to guess them. */}}
{{- define "relay.salt" -}}
{{- if not (hasKey .Values "salt") -}}
{{- $old := dig "data" dict (lookup "v1" "Secret" .Release.Namespace (include "relay.fullname" .) | default dict) -}}
{{- $_ := set .Values "salt" (get $old "salt" | b64dec | default (randAlphaNum 32)) -}}
{{- end -}}
{{- .Values.salt -}}
{{- end -}}

{{- define "relay.checks" -}}
{{- $_ := required "image.repository: set it to where you pushed the image, such as registry.example.org/slipway/relay" .Values.image.repository -}}
{{- if and .Values.httpRoute.enabled (or (not .Values.httpRoute.hostnames) (not .Values.httpRoute.parentRefs)) -}}
{{- fail "httpRoute: name what clients use in httpRoute.hostnames, such as relay.example.org, and the gateway in httpRoute.parentRefs" -}}
{{- end -}}
{{- $_ := required "config.matrix.homeserver: set it to the homeserver's URL, such as https://matrix.example.org" .Values.config.matrix.homeserver -}}
{{- $_ := required "config.admin.matrixid: set it to the administrator's Matrix ID, such as @you:example.org" .Values.config.admin.matrixid -}}
{{- if eq .Values.secrets.login "password" -}}
{{- $_ := required "config.matrix.username: set it to the bot's Matrix ID, such as @relay:example.org" .Values.config.matrix.username -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "relay.postgres" .)) -}}
{{- fail "replicas: SQLite is for one relay; more need config.database.dialect: postgres" -}}
{{- end -}}
{{- if not (hasSuffix ":8080" (dig "http" "listenaddress" "" .Values.config)) -}}
{{- fail "config.http.listenaddress: the Service and the probes look for port 8080; leave it at 0.0.0.0:8080, and set service.port for another one" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: name what clients use, such as relay.example.org, or set ingress.enabled to false" -}}
{{- end -}}
{{- end -}}
