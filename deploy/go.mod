module slipway/deploy

go 1.26.8
