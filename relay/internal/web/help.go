package web

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/gorilla/mux"

	"slipway/relay/internal/refusal"
	ui "slipway/shared/web"
)

type helpPage struct {
	frame
	ui.HelpPage
}

// getHelp serves the documentation, which is public.
func (web *Web) getHelp(w http.ResponseWriter, r *http.Request) error {
	err := web.help.Serve(w, r, mux.Vars(r)["file"], func(title string, part ui.HelpPage) any {
		f := web.frame(nil, "help", title)
		if v, err := web.sessionRequest(r); err == nil {
			f.enter(v)
		} else {
			f.link("help", "help/", "Help")
			f.Login = "/ui/login" + ui.NextQuery(r, "/ui")
		}
		return helpPage{f, part}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return &refusal.Error{Kind: refusal.KindNotFound, Message: "There is no such page."}
	}
	return err
}
