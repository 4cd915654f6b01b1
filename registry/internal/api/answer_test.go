package api

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"
)

// gate is a client that takes nothing until it is opened.
type gate struct {
	*httptest.ResponseRecorder
	reached, open chan struct{}
}

func newGate() *gate {
	return &gate{httptest.NewRecorder(), make(chan struct{}, 1), make(chan struct{})}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
	return g.ResponseRecorder.Write(p)
}

func randomBody(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// evicted starts to send an answer to a client that takes nothing and has somebody
// else take all of the memory.
func evicted(t *testing.T, body []byte, again render) (g *gate, sent chan error) {
	t.Helper()
	a := &API{memory: newAnswers()}
	g, sent = newGate(), make(chan error, 1)
	x := a.newAnswer(bytes.Clone(body), 0, again)
	go func() { sent <- x.send(t.Context(), g) }()
	<-g.reached
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := a.memory.acquire(ctx, answerMemory); err != nil {
		t.Fatalf("a client that takes nothing keeps the memory: %v", err)
	}
	a.memory.room.Release(answerMemory)
	return g, sent
}

func TestLargeAnswer_LeavesMemoryAndArrivesWhole(t *testing.T) {
	body := randomBody(1 << 20)
	made := 0
	g, sent := evicted(t, body, func(context.Context) ([]byte, error) {
		made++
		return bytes.Clone(body), nil
	})
	close(g.open)
	if err := <-sent; err != nil || made != 1 || !bytes.Equal(g.Body.Bytes(), body) {
		t.Errorf("%v, made again %d times, %d bytes", err, made, g.Body.Len())
	}
}

func TestLargeAnswer_ThatChangedIsCutOff(t *testing.T) {
	body := randomBody(1 << 20)
	g, sent := evicted(t, body, func(context.Context) ([]byte, error) { return body[1:], nil })
	close(g.open)
	if err := <-sent; !errors.Is(err, errChanged) || g.Body.Len() > answerPiece {
		t.Errorf("%v after %d bytes", err, g.Body.Len())
	}
}

// An answer for which there is no room waits until there is.
func TestLargeAnswer_WaitsForRoom(t *testing.T) {
	a := &API{memory: newAnswers()}
	if err := a.memory.acquire(t.Context(), answerMemory); err != nil {
		t.Fatal(err)
	}
	body := randomBody(200_000)
	x := a.newAnswer(bytes.Clone(body), 0, func(context.Context) ([]byte, error) { return body, nil })
	if x.body != nil {
		t.Error("an answer is in memory without room for it")
	}
	w, sent := httptest.NewRecorder(), make(chan error, 1)
	go func() { sent <- x.send(t.Context(), w) }()
	select {
	case err := <-sent:
		t.Fatalf("sent without room: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	a.memory.room.Release(answerMemory)
	if err := <-sent; err != nil || !bytes.Equal(w.Body.Bytes(), body) {
		t.Errorf("%v, %d bytes", err, w.Body.Len())
	}
	if !a.memory.room.TryAcquire(answerMemory) {
		t.Error("room is not given back")
	}
}
