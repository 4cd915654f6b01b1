package webhook

import (
	"net/http"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/request"
)

// GitHub is GitHub's webhooks (https://docs.github.com/webhooks/webhook-events-and-payloads). With a webhook secret the
// request must be signed. It is posted to Discord's address for GitHub, too.
func GitHub() protocol.Protocol {
	routes := append(hook("github"), protocol.Route{Method: http.MethodPost, Path: "/api/webhooks/{id}/{token}/github"})
	return protocol.Protocol{
		Name: "github", Routes: routes, Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, app protocol.App) (protocol.Parsed, error) {
			if err := checkHMAC(r, "X-Hub-Signature-256", "sha256=", app); err != nil {
				return protocol.Parsed{}, err
			}
			return parseForge(r, "github", r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"))
		},
		Reply: reply, Fail: request.WriteError,
	}
}

// Gitea is the webhooks of Gitea and Forgejo, which have the shape of GitHub's
// (https://forgejo.org/docs/latest/user/webhooks/). With a webhook secret the request must be signed.
func Gitea() protocol.Protocol {
	return protocol.Protocol{
		Name: "gitea", Routes: hook("gitea"), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, app protocol.App) (protocol.Parsed, error) {
			name := "Gitea"
			if r.Header.Get("X-Forgejo-Event") != "" {
				name = "Forgejo"
			}
			if err := checkHMAC(r, "X-"+name+"-Signature", "", app); err != nil {
				return protocol.Parsed{}, err
			}
			return parseForge(r, "gitea", r.Header.Get("X-"+name+"-Event"), r.Header.Get("X-"+name+"-Delivery"))
		},
		Reply: reply, Fail: request.WriteError,
	}
}
