// Generated makes a robot, deletes a tag and restores it with the client that oapi-codegen makes of registry/openapi/openapi.yml, beside it
// in client.go: generated BASE USER PASSWORD. It is a module of its own, so that the registry doesn't depend on the client's library.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"

	_ "github.com/oapi-codegen/runtime" // of client.go, which go mod tidy doesn't see
)

const repository = "team/app"

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base, user, password string) error {
	c, err := newClient(base, user, password)
	if err != nil {
		return err
	}
	key := "from-go"
	robot := RobotInput{Name: "go", Repositories: &[]string{repository}, Allow: &[]Right{Pull, Push, Delete}}
	made, err := c.CreateRobotWithResponse(ctx, &CreateRobotParams{IdempotencyKey: &key}, robot)
	if err != nil {
		return err
	}
	if made.JSON201 == nil || made.JSON201.Username != "robot+go" || made.JSON201.Password == nil {
		return fmt.Errorf("create a robot: %s %s", made.HTTPResponse.Status, made.Body)
	}
	again, err := c.CreateRobotWithResponse(ctx, &CreateRobotParams{IdempotencyKey: &key}, robot)
	if err != nil {
		return err
	}
	if again.JSON201 == nil || *again.JSON201.Password != *made.JSON201.Password {
		return fmt.Errorf("create it again: %s", again.HTTPResponse.Status)
	}
	if c, err = newClient(base, made.JSON201.Username, *made.JSON201.Password); err != nil {
		return err
	}
	deleted, err := c.DeleteManifestWithResponse(ctx, repository, "v1")
	if err != nil {
		return err
	}
	if deleted.StatusCode() != http.StatusAccepted {
		return fmt.Errorf("delete a tag: %s %s", deleted.HTTPResponse.Status, deleted.Body)
	}
	list, err := c.ListDeletedWithResponse(ctx, repository)
	if err != nil {
		return err
	}
	if list.JSON200 == nil || len(list.JSON200.Deleted) == 0 || *list.JSON200.Deleted[0].By != "robot:go" {
		return fmt.Errorf("list what was deleted: %s %s", list.HTTPResponse.Status, list.Body)
	}
	restored, err := c.RestoreWithResponse(ctx, repository, Selection{Deletion: &list.JSON200.Deleted[0].Id})
	if err != nil {
		return err
	}
	if restored.JSON200 == nil || restored.JSON200.Tags["v1"] == "" {
		return fmt.Errorf("restore: %s %s", restored.HTTPResponse.Status, restored.Body)
	}
	tags, err := c.ListTagsWithResponse(ctx, repository, &ListTagsParams{})
	if err != nil {
		return err
	}
	if tags.JSON200 == nil || !slices.Contains(tags.JSON200.Tags, "v1") {
		return fmt.Errorf("list tags: %s %s", tags.HTTPResponse.Status, tags.Body)
	}
	denied, err := c.CreateRobotWithResponse(ctx, nil, RobotInput{Name: "another"})
	if err != nil {
		return err
	}
	if denied.JSON403 == nil || denied.JSON403.Errors[0].Code != DENIED {
		return fmt.Errorf("a robot makes a robot: %s %s", denied.HTTPResponse.Status, denied.Body)
	}
	return nil
}

func newClient(base, user, password string) (*ClientWithResponses, error) {
	return NewClientWithResponses(base, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(user, password)
		return nil
	}))
}
