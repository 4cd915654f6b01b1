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

{{/* Several pods may have the images at a time. */}}
{{- define "registry.shared" -}}
{{- if or (include "registry.bucket" .) (not .Values.persistence.enabled) (has "ReadWriteMany" .Values.persistence.accessModes) -}}yes{{- end -}}
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
{{- if include "registry.bucket" . -}}
{{- $config = set $config "storage" (omit $config.storage "filesystem") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "registry.checks" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.persistence.enabled) (not (include "registry.bucket" .)) -}}
{{- fail "replicas: several processes share their images; set persistence.enabled, or config.storage to an object store" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "registry.shared" .)) -}}
{{- fail "replicas: more than one needs a volume that several nodes can write; set persistence.accessModes to [ReadWriteMany], config.storage to an object store, or replicas to 1" -}}
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
