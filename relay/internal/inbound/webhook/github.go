package webhook

import (
	"net/http"

	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
)

// GitHub is GitHub's webhooks (https://docs.github.com/webhooks/webhook-events-and-payloads). With a webhook secret the
// request must be signed. It is posted to Discord's address for GitHub, too.
func GitHub() inbound.Protocol {
	routes := append(hook("github"), inbound.Route{Method: http.MethodPost, Path: "/api/webhooks/{id}/{token}/github"})
	return inbound.Protocol{
		Name: "github", Routes: routes, Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, app inbound.App) (inbound.Batch, error) {
			if err := checkHMAC(r, "X-Hub-Signature-256", "sha256=", app); err != nil {
				return inbound.Batch{}, err
			}
			return parseForge(r, "github", r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"))
		},
		Reply: reply, Fail: httprequest.WriteError,
	}
}

// Gitea is the webhooks of Gitea and Forgejo, which have the shape of GitHub's
// (https://forgejo.org/docs/latest/user/webhooks/). With a webhook secret the request must be signed.
func Gitea() inbound.Protocol {
	return inbound.Protocol{
		Name: "gitea", Routes: hook("gitea"), Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, app inbound.App) (inbound.Batch, error) {
			name := "Gitea"
			if r.Header.Get("X-Forgejo-Event") != "" {
				name = "Forgejo"
			}
			if err := checkHMAC(r, "X-"+name+"-Signature", "", app); err != nil {
				return inbound.Batch{}, err
			}
			return parseForge(r, "gitea", r.Header.Get("X-"+name+"-Event"), r.Header.Get("X-"+name+"-Delivery"))
		},
		Reply: reply, Fail: httprequest.WriteError,
	}
}
