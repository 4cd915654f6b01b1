module slipway/docs

go 1.26.8
