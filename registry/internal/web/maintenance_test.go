package web

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/maintenance/schedule"
)

// TestMaintenance: those who administer the registry see how far the jobs are, and start one that
// isn't running; nobody else does.
func TestMaintenance(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	var board schedule.Board
	board.Plan(schedule.GarbageCollect, 0)
	board.Begin(schedule.GarbageCollect, "")
	board.Note(schedule.GarbageCollect, "3 blobs <freed>", 7000)
	board.Explain(schedule.GarbageCollect, "10 B newer than 1h")
	board.Limit(schedule.GarbageCollect, "keeps much")
	board.End(schedule.GarbageCollect, true)
	board.Plan(schedule.Verify, time.Hour)
	s := newSite(t, indexed, func(c *setup) { c.pages.Board, c.pages.Audit = &board, acts })
	s.image("web/app", "v1", nil, "x")
	s.image("web/db", "v1", nil, "x")
	const path = "/ui/maintenance"
	for _, who := range []string{"", "bob", "alice", "lead"} {
		b := s.browser()
		if who != "" {
			b = s.as(who)
		}
		b.get(path)
		b.want(404, "-garbage-collect", "->Maintenance<")
		if b.get("/ui/"); who != "" {
			b.post(path, "job", schedule.GarbageCollect)
			b.want(404)
		}
	}
	b := s.as("owner")
	b.get(path)
	b.want(200, "not scheduled", "not since the start", "next before", "failed", "3 blobs &lt;freed&gt;, 6.8 KiB; kept 10 B newer than 1h", "Keeps much.", "-/ui/retention", ">Maintenance<", "-running", "-Reload")
	b.post(path, "job", schedule.GarbageCollect, "csrf", "guess")
	b.want(403)
	b.get(path)
	b.post(path, "job", "rm -rf")
	b.want(404)
	if j := board.Jobs()[0]; j.Asked {
		t.Fatalf("somebody has started a job: %+v", j)
	}
	b.get(path)
	b.post(path, "job", schedule.GarbageCollect)
	b.want(200, "The run is requested", "waiting</span> for another job", "Reload")
	b.post(path, "job", schedule.GarbageCollect)
	b.want(409, "Not started: garbage-collect is running")
	board.Begin(schedule.GarbageCollect, <-board.Asked(schedule.GarbageCollect))
	b.get(path)
	b.post(path, "job", schedule.GarbageCollect)
	b.want(409, "Not started: garbage-collect is running")
	b.get(path)
	b.want(200, "started by owner", "-Reading")
	done := board.Jobs()[0].Done
	done.Enter("reading repositories")
	done.Repositories.Add(1)
	done.Manifests.Add(1234)
	b.get(path)
	b.want(200, "Reading repositories.", ", 1234 manifests", "-meter")
	for end := time.Now().Add(30 * time.Second); !strings.Contains(b.page, "1 of 2 repositories"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the page doesn't show how many repositories there are")
		}
		b.get(path)
	}
	done.Enter("freeing unneeded blobs")
	done.Blobs.Add(5)
	done.Bytes.Add(6000)
	done.Percent.Store(37)
	b.get(path)
	b.want(200, "Freeing unneeded blobs.", "5 blobs, 5.9 KiB, 37 %", "<meter", "-manifests")
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`"event":"maintenance","who":"owner","from":"127[^}]*"method":"POST","reference":"garbage-collect","status":(202|409)`)
	if got := want.FindAllStringSubmatch(lines.String(), -1); len(got) != 3 || got[0][1] != "202" {
		t.Errorf("in the audit log: %s", lines.String())
	}
}
