{{- define "registry.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "registry.selector" -}}
app.kubernetes.io/name: registry
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "registry.labels" -}}
{{ include "registry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "registry.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "registry.secret" -}}
{{- default (include "registry.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{- define "registry.claim" -}}
{{- default (include "registry.fullname" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{/* Images are in an object store, and no volume is needed. */}}
{{- define "registry.bucket" -}}
{{- range $store := list "s3" "s3aws" "azure" "gcs" -}}
{{- if hasKey (default dict $.Values.config.storage) $store -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration: the values, the login where auth.enabled asks for it, and
no debug server that nobody may see. */}}
{{- define "registry.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.auth.enabled -}}
{{- $login := dict "htpasswd" (dict "realm" .Values.auth.realm "path" "/run/secrets/registry/htpasswd") -}}
{{- $config = merge $config (dict "auth" $login) -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
{{- $config = set $config "http" (omit $config.http "debug") -}}
{{- end -}}
{{- with include "registry.proxies" . | fromYamlArray -}}
{{- $config = merge $config (dict "http" (dict "trustedproxies" .)) -}}
{{- end -}}
{{- if include "registry.bucket" . -}}
{{- $config = set $config "storage" (omit $config.storage "filesystem") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Networks whose word about a client's address is taken: those of the Ingress and of the Gateway. */}}
{{- define "registry.proxies" -}}
{{- $proxies := list -}}
{{- if .Values.ingress.enabled -}}{{- $proxies = concat $proxies .Values.ingress.trustedProxies -}}{{- end -}}
{{- if .Values.httpRoute.enabled -}}{{- $proxies = concat $proxies .Values.httpRoute.trustedProxies -}}{{- end -}}
{{- $proxies | uniq | toYaml -}}
{{- end -}}

{{- define "registry.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{- if .name -}}{{ .name }}{{- else if .create -}}{{ include "registry.fullname" $ }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* More than one pod, or as many as an autoscaler wants. */}}
{{- define "registry.many" -}}
{{- if or (kindIs "invalid" .Values.replicas) (gt (int .Values.replicas) 1) -}}yes{{- end -}}
{{- end -}}

{{/* How replicas are spread: as the values have it, and else over nodes and zones. */}}
{{- define "registry.spread" -}}
{{- if .Values.topologySpreadConstraints -}}
{{- toYaml .Values.topologySpreadConstraints -}}
{{- else if include "registry.many" . -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "registry.selector" $ | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "registry.checks" -}}
{{- $_ := required "image.repository: set it to where you pushed the image, such as registry.example.org/slipway/registry" .Values.image.repository -}}
{{- if and (include "registry.many" .) (not (include "registry.bucket" .)) -}}
{{- fail "replicas: a volume has one registry at a time; set config.storage to an object store, or replicas to 1" -}}
{{- end -}}
{{- if and .Values.auth.enabled (dig "auth" dict .Values.config) (not (dig "auth" "htpasswd" "" .Values.config)) -}}
{{- fail "auth.enabled: adds a password file to config.auth, which has another login; set auth.enabled to false" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (not (hasSuffix ":5001" (dig "http" "debug" "addr" "" .Values.config))) -}}
{{- fail "config.http.debug.addr: the Service looks for port 5001; leave it at 0.0.0.0:5001, or set metrics.enabled to false" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (or (not .Values.httpRoute.hostnames) (not .Values.httpRoute.parentRefs)) -}}
{{- fail "httpRoute: name what clients use in httpRoute.hostnames, such as registry.example.org, and the gateway in httpRoute.parentRefs" -}}
{{- end -}}
{{- if not (hasSuffix ":5000" (dig "http" "addr" "" .Values.config)) -}}
{{- fail "config.http.addr: the Service and the probes look for port 5000; leave it at 0.0.0.0:5000, and set service.port for another one" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: name what clients use, such as registry.example.org, or set ingress.enabled to false" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: there are no metrics to scrape; set metrics.enabled to true" -}}
{{- end -}}
{{- if and (not .Values.auth.enabled) .Values.auth.htpasswd -}}
{{- fail "auth.htpasswd: has no effect while auth.enabled is false; set it to true, or leave htpasswd out" -}}
{{- end -}}
{{- end -}}
