package web

import (
	"net/http"

	"github.com/gorilla/mux"

	"slipway/relay/internal/refusal"
)

func (web *Web) getStatic(w http.ResponseWriter, r *http.Request) error {
	asset, ok := web.pages.Asset(mux.Vars(r)["name"])
	if !ok {
		return &refusal.Error{Kind: refusal.KindNotFound, Message: "There is no such file."}
	}
	asset.ServeHTTP(w, r)
	return nil
}
