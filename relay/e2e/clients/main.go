// Clients sends messages with a library in Go: clients LIBRARY BASE TOKEN. It sends each line of its input and answers
// with "ok" or the error. It is a module of its own, so that the relay depends on none of the libraries.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/gotify/go-api-client/v2/auth"
	"github.com/gotify/go-api-client/v2/client/message"
	"github.com/gotify/go-api-client/v2/gotify"
	"github.com/gotify/go-api-client/v2/models"
	"github.com/gregdel/pushover"
	"github.com/slack-go/slack"
)

var libraries = map[string]func(base, token, text string) error{
	"pushover": func(base, token, text string) error {
		pushover.APIEndpoint = base + "/1"
		m := pushover.NewMessageWithTitle(text, "Title")
		m.URL, m.URLTitle = "https://example.org", "Site"
		answer, err := pushover.New(token).SendMessage(m, pushover.NewRecipient(strings.Repeat("u", 30)))
		if err == nil && answer.Status != 1 {
			err = errors.New(answer.String())
		}
		return err
	},
	"gotify": func(base, token, text string) error {
		address, err := url.Parse(base)
		if err != nil {
			return err
		}
		params := message.NewCreateMessageParams()
		params.Body = &models.MessageExternal{Title: "Title", Message: text, Priority: 5}
		_, err = gotify.NewClient(address, &http.Client{}).Message.CreateMessage(params, auth.TokenAuth(token))
		return err
	},
	"slack": func(base, token, text string) error {
		return slack.PostWebhook(base+"/services/T0/B0/"+token, &slack.WebhookMessage{
			Text: text, Attachments: []slack.Attachment{{Title: "Title", Fields: []slack.AttachmentField{{Title: "a", Value: "b"}}}},
		})
	},
	"discord": func(base, token, text string) error {
		discordgo.EndpointWebhooks = base + "/api/v9/webhooks/"
		s, err := discordgo.New("")
		if err != nil {
			return err
		}
		_, err = s.WebhookExecute("1", token, true, &discordgo.WebhookParams{Content: text})
		return err
	},
}

func main() {
	send := libraries[os.Args[1]]
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := send(os.Args[2], os.Args[3], lines.Text()); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
