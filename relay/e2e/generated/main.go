// Generated sends, lists and withdraws a message with the client that oapi-codegen makes of relay/openapi/openapi.yml, beside it in client.go:
// generated BASE TOKEN. It is a module of its own, so that the relay doesn't depend on the client's library.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	_ "github.com/oapi-codegen/runtime" // of client.go, which go mod tidy doesn't see
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base, token string) error {
	c, err := NewClientWithResponses(base, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	title, wait, key, state := "Go", "20s", "from-go", "sent"
	priority := new(Priority)
	if err := priority.FromPriority0("high"); err != nil {
		return err
	}
	sent, err := c.SendMessageWithResponse(ctx, &SendMessageParams{Wait: &wait, IdempotencyKey: &key}, Submission{Title: &title, Message: "sent by Go", Priority: priority})
	if err != nil {
		return err
	}
	if sent.JSON200 == nil || sent.JSON200.Priority != 1 || sent.JSON200.Status != "sent" {
		return fmt.Errorf("send: %s %s", sent.HTTPResponse.Status, sent.Body)
	}
	id := sent.JSON200.Id
	list, err := c.ListMessagesWithResponse(ctx, &ListMessagesParams{State: &state})
	if err != nil {
		return err
	}
	if list.JSON200 == nil || len(list.JSON200.Messages) == 0 || list.JSON200.Messages[0].Id != id || list.JSON200.Messages[0].Title != title {
		return fmt.Errorf("list: %s %s", list.HTTPResponse.Status, list.Body)
	}
	withdrawn, err := c.WithdrawMessageWithResponse(ctx, id)
	if err != nil {
		return err
	}
	if withdrawn.JSON200 == nil || withdrawn.JSON200.Id != id {
		return fmt.Errorf("withdraw: %s %s", withdrawn.HTTPResponse.Status, withdrawn.Body)
	}
	none, err := c.GetMessageWithResponse(ctx, id+1000)
	if err != nil {
		return err
	}
	if none.JSON404 == nil || none.JSON404.Code != "not_found" {
		return fmt.Errorf("get: %s %s", none.HTTPResponse.Status, none.Body)
	}
	return nil
}
