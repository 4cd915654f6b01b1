package config

import "slipway/shared/config"

// Log is about the log on stderr.
type Log struct {
	Level        string         `key:"level" choices:"error,warn,info,debug" doc:"Lowest level."`
	Formatter    string         `key:"formatter" choices:"text,json,logstash,console" doc:"Format; text is key=value."`
	Fields       map[string]any `key:"fields" doc:"Fields added to every line."`
	AccessLog    AccessLog      `key:"accesslog"`
	ReportCaller bool           `key:"reportcaller" doc:"Add the source location."`
	Hooks        config.Dead    `key:"hooks" why:"no mail is sent for log lines; set an alert on the metrics or the shipped log"`
}

// AccessLog is the line per request in Apache's combined format.
type AccessLog struct {
	Disabled bool `key:"disabled" doc:"Disable the access log."`
}
