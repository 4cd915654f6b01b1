package azure

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Failure is an answer that says no.
type Failure struct {
	Status  int
	Code    string // Azure's word for it
	Message string
}

// Error implements error.
func (f *Failure) Error() string {
	text := "Azure answers " + strconv.Itoa(f.Status)
	if f.Code != "" {
		text += " " + f.Code
	}
	if line, _, _ := strings.Cut(f.Message, "\n"); line != "" {
		text += ": " + line
	}
	return text
}

// failed is the meaning of an error of the client, nil for nil.
func (b *Bucket) failed(ctx context.Context, err error) error {
	var answer *azcore.ResponseError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoToken) || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrDenied):
		return err // of the request for a grant
	case !errors.As(err, &answer):
		return rest.Failed(ctx, err)
	}
	f := &Failure{Status: answer.StatusCode, Code: answer.ErrorCode}
	if content, err := runtime.Payload(answer.RawResponse); err == nil {
		var told struct{ Message string }
		if xml.Unmarshal(content, &told) == nil {
			f.Message = told.Message
		}
	}
	if t := rest.Status(answer.RawResponse, f); t != nil {
		return t
	}
	switch {
	case f.Status == http.StatusNotFound && f.Code != "ContainerNotFound" && f.Code != "ResourceNotFound":
		return fmt.Errorf("%w: %w", storage.ErrNotExist, f)
	case f.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, f)
	case f.Status == http.StatusPreconditionFailed || f.Code == "BlobAlreadyExists":
		return fmt.Errorf("%w: %w", storage.ErrConflict, f)
	case f.Code == "InvalidBlockList" || f.Code == "BlobBeingRehydrated" || f.Code == "ContainerBeingDeleted":
		return &object.Trouble{Err: f, Effect: object.Refused}
	case f.Status == http.StatusForbidden && b.expires && f.Code == "AuthenticationFailed" && b.started.Load(): // it has expired on its way
		return &object.Trouble{Err: f, Effect: object.Refused}
	case f.Status == http.StatusBadRequest || f.Status == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, f)
	case f.Status == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, f)
	case f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", storage.ErrDenied, f)
	}
	return f
}

// failureCode is Azure's word inside err, or "".
func failureCode(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code
	}
	return ""
}
