module slipway/deploy

go 1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.9.3 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	k8s.io/api v0.37.0 // indirect
	k8s.io/apimachinery v0.37.0 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
