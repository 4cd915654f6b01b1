package config

import "slipway/shared/config"

// Log is about the log on stderr.
type Log struct {
	Level        string         `key:"level" choices:"error,warn,info,debug" doc:"Least important lines to write."`
	Formatter    string         `key:"formatter" choices:"text,json,logstash,console" doc:"How a line looks: text (key=value), json or logstash for machines, console for people."`
	Fields       map[string]any `key:"fields" doc:"Fields added to every line."`
	AccessLog    AccessLog      `key:"accesslog"`
	ReportCaller bool           `key:"reportcaller" doc:"Add the place in the source to every line."`
	Hooks        config.Dead    `key:"hooks" why:"no mail is sent for log lines; set an alert on the metrics or the shipped log"`
}

// AccessLog is the line per request in Apache's combined format.
type AccessLog struct {
	Disabled bool `key:"disabled" doc:"Leave out the access log, a line in combined format for each request."`
}
