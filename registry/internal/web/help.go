package web

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/gorilla/mux"

	ui "slipway/shared/web"
)

type helpPage struct {
	frame
	ui.HelpPage
}

// getHelp serves the documentation, which is public.
func (web *Web) getHelp(w http.ResponseWriter, v *visit) error {
	err := web.help.Serve(w, v.Request, mux.Vars(v.Request)["file"], func(title string, part ui.HelpPage) any {
		return helpPage{web.frame(v, "help", title), part}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return errNoPage
	}
	return err
}
