module slipway/clients

go 1.26.8

require (
	github.com/bwmarrin/discordgo v0.29.0
	github.com/gotify/go-api-client/v2 v2.0.4
	github.com/gregdel/pushover v1.3.1
	github.com/slack-go/slack v0.35.0
)

require (
	github.com/PuerkitoBio/purell v1.1.0 // indirect
	github.com/PuerkitoBio/urlesc v0.0.0-20170810143723-de5bf2ad4578 // indirect
	github.com/asaskevich/govalidator v0.0.0-20180720115003-f9ffefc3facf // indirect
	github.com/globalsign/mgo v0.0.0-20180905125535-1ca0a4f7cbcb // indirect
	github.com/go-openapi/analysis v0.17.0 // indirect
	github.com/go-openapi/errors v0.17.2 // indirect
	github.com/go-openapi/jsonpointer v0.17.0 // indirect
	github.com/go-openapi/jsonreference v0.17.0 // indirect
	github.com/go-openapi/loads v0.17.0 // indirect
	github.com/go-openapi/runtime v0.17.2 // indirect
	github.com/go-openapi/spec v0.17.0 // indirect
	github.com/go-openapi/strfmt v0.17.0 // indirect
	github.com/go-openapi/swag v0.17.0 // indirect
	github.com/go-openapi/validate v0.17.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/mailru/easyjson v0.0.0-20180823135443-60711f1a8329 // indirect
	github.com/mitchellh/mapstructure v1.1.2 // indirect
	golang.org/x/crypto v0.0.0-20210421170649-83a5a9bb288b // indirect
	golang.org/x/net v0.0.0-20210226172049-e18ecbb05110 // indirect
	golang.org/x/sys v0.0.0-20201119102817-f84b799fce68 // indirect
	golang.org/x/text v0.3.3 // indirect
	gopkg.in/yaml.v2 v2.2.1 // indirect
)
