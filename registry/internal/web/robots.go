package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/identity/robot"
)

const robotsPath = "/_slipway/robots"

type robotRow struct {
	robot.Robot
	Used    time.Time
	Expired bool
}

type robotsPage struct {
	frame
	Robots []robotRow
	Host   string
	Form   map[string]string // what the form for a new robot holds
	Rights []string          // that can be chosen

	// Of a robot that was just made or got another secret; it is shown once.
	Username, Secret string
}

// managesRobots reports whether the visitor may manage any robots.
func (web *Web) managesRobots(v *visit) bool {
	return web.o.Robots != nil && v.csrf != "" && (v.grant == nil || v.grant.AdministersAny())
}

func (web *Web) robotsPage(v *visit) (p robotsPage, err error) {
	if !web.managesRobots(v) {
		return p, errNoPage
	}
	p = robotsPage{frame: web.frame(v, "robots", "Robots"), Host: web.host(v.Request), Form: map[string]string{}, Rights: []string{"pull", "push", "tag-move", "delete", "list"}}
	all, err := web.o.Robots.List(v.Context())
	for i := range all {
		if v.grant == nil || v.grant.Administers(all[i].Repositories) {
			p.Robots = append(p.Robots, robotRow{Robot: all[i], Used: web.o.Robots.LastUsed(all[i].Name), Expired: all[i].Expired(time.Now())})
		}
	}
	return p, err
}

func (web *Web) getRobots(w http.ResponseWriter, v *visit) error {
	p, err := web.robotsPage(v)
	if err != nil {
		return err
	}
	return web.pages.Show(w, http.StatusOK, "robots", p)
}

func (web *Web) postRobots(w http.ResponseWriter, v *visit) error {
	if !web.managesRobots(v) {
		return errNoPage
	}
	form := v.PostForm
	q := robot.Robot{Name: strings.TrimSpace(form.Get("name")), Repositories: strings.Fields(form.Get("repositories")), Allow: form["allow"], Note: form.Get("note")}
	wanted := map[string]any{"name": q.Name, "repositories": q.Repositories, "allow": q.Allow, "note": q.Note}
	if days, err := strconv.Atoi(form.Get("days")); err == nil && days > 0 && days <= 3650 {
		wanted["expires"] = time.Now().AddDate(0, 0, days).UTC().Truncate(time.Second)
	}
	answer, err := web.actJSON(v, http.MethodPost, robotsPath, wanted)
	return web.showSecret(w, v, answer, err)
}

// confirmedRobot asks before a change of a robot that is logged in somewhere.
func (web *Web) confirmedRobot(w http.ResponseWriter, v *visit, heading, text, button string) (bool, error) {
	p, err := web.robotsPage(v)
	if err != nil {
		return false, err
	}
	name := mux.Vars(v.Request)["robot"]
	if v.PostForm.Get("sure") == "" && !slices.ContainsFunc(p.Robots, func(r robotRow) bool { return r.Name == name }) {
		return false, errHidden
	}
	return web.confirmed(w, v, confirmPage{frame: web.frame(v, "robots", button), Heading: heading + " " + name + "?", Text: text, Button: button, Cancel: web.base + "/robots"})
}

func (web *Web) postRotateRobot(w http.ResponseWriter, v *visit) error {
	sure, err := web.confirmedRobot(w, v, "Give another secret to the robot", "Its present secret stops working at once, wherever it is in use. The new one is shown once.", "New secret")
	if !sure {
		return err
	}
	_, answer, err := web.act(v, http.MethodPost, robotsPath+"/"+mux.Vars(v.Request)["robot"]+"/secret", "", nil)
	return web.showSecret(w, v, answer, err)
}

// showSecret shows the robots with the secret of one of them, or with what went wrong.
func (web *Web) showSecret(w http.ResponseWriter, v *visit, answer []byte, failed error) error {
	p, err := web.robotsPage(v)
	if err != nil {
		return err
	}
	if failed != nil {
		for _, key := range []string{"name", "repositories", "note", "days"} {
			p.Form[key] = v.PostForm.Get(key)
		}
		for _, right := range v.PostForm["allow"] {
			if slices.Contains(p.Rights, right) {
				p.Form["allow-"+right] = "checked"
			}
		}
		return web.again(w, "robots", &p, &p.frame, failed)
	}
	var created struct{ Username, Password string }
	if err := json.Unmarshal(answer, &created); err != nil {
		return err
	}
	p.Username, p.Secret = created.Username, created.Password
	return web.pages.Show(w, http.StatusOK, "robots", p)
}

func (web *Web) postRevokeRobot(w http.ResponseWriter, v *visit) error {
	sure, err := web.confirmedRobot(w, v, "Delete the robot", "It can no longer log in, and cannot be brought back: another robot of this name has another secret.", "Delete")
	if !sure {
		return err
	}
	if _, _, err := web.act(v, http.MethodDelete, robotsPath+"/"+mux.Vars(v.Request)["robot"], "", nil); err != nil {
		return err
	}
	return web.back(w, v, "/robots", "deleted")
}
