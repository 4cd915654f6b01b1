package protocol

import (
	"net/http"

	"slipway/relay/internal/request"
)

// Heartbeat takes heartbeats, which make no messages.
func Heartbeat() Protocol {
	p := Protocol{
		Name: "heartbeat", Token: Token, Fail: request.WriteError,
		Parse: func(*Request, App) (Parsed, error) { return Parsed{Beat: true}, nil },
		Reply: func(w http.ResponseWriter, _ Result) {
			request.WriteJSON(w, http.StatusOK, map[string]bool{"success": true})
		},
	}
	for _, path := range []string{"/heartbeat", "/heartbeat/{token}"} {
		p.Routes = append(p.Routes, Route{Method: http.MethodPost, Path: path}, Route{Method: http.MethodGet, Path: path})
	}
	return p
}
