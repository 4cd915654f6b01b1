package web

import "net/http"

// confirmPage asks the visitor to confirm a form whose effect can't be undone.
type confirmPage struct {
	frame
	Heading, Text, Button string
	Fields                map[string][]string // of the form, which is sent once more
	Cancel                string
}

// confirmed reports whether the visitor has confirmed the form. If not, it answers with the question.
func (web *Web) confirmed(w http.ResponseWriter, v *visit, p confirmPage) (bool, error) {
	if v.PostForm.Get("sure") == "yes" {
		return true, nil
	}
	p.Fields = map[string][]string{}
	for name, values := range v.PostForm {
		if name != "csrf" {
			p.Fields[name] = values
		}
	}
	return false, web.pages.Show(w, http.StatusOK, "confirm", p)
}
