package web

import (
	"testing"
)

func TestClientLife(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.post("/ui/clients", "name", " ")
	b.want(400, "A name has", `aria-invalid="true"`)
	b.post("/ui/clients", "name", "phone")
	token := b.token()
	b.want(200, "“phone” is ready", "-H &#39;Authorization: Bearer "+token+"&#39;", b.base+"/message/stream")
	v, err := b.service.ClientViewer(t.Context(), token)
	if err != nil || v.Name != "admin" {
		t.Fatalf("%+v, %v", v, err)
	}
	b.get("/ui/account")
	b.want(200, `value="phone"`, "-"+token)
	b.post("/ui/clients/1", "name", "tablet")
	b.want(200, "Saved.", `value="tablet"`)
	b.post("/ui/clients/1", "name", "")
	b.want(400, "A name has", `value="tablet"`)
	b.get("/ui/clients/1/delete")
	b.want(200, "Delete the client “tablet”?")
	b.get("/ui/clients/9/delete")
	b.want(404)
	b.post("/ui/clients/1/delete")
	b.want(200, "Deleted.", "-tablet")
	if _, err := b.service.ClientViewer(t.Context(), token); err == nil {
		t.Error("the token of a deleted client works")
	}
	b.post("/ui/clients/1/delete")
	b.want(404)
}

// Pages that show the relay's address have the frame of all others.
func TestAddressOnAPage_LogoutStaysThere(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.post("/ui/applications/new", "name", "x", "target", "new")
	b.want(200, "is ready", `action="/ui/logout"`)
	b.post("/ui/clients", "name", "x")
	b.want(200, "is ready", `action="/ui/logout"`)
}
