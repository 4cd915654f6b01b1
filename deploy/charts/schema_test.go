package charts_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"slipway/tools/harness"
)

// TestSchemas: the schema of a chart's values knows exactly the settings of its service.
func TestSchemas(t *testing.T) {
	for _, chart := range charts {
		var values struct{ Properties struct{ Config any } }
		var settings any
		for text, into := range map[string]any{
			harness.Read(t, filepath.Join(chart, "values.schema.json")):  &values,
			harness.Run(t, harness.Binary(t, chart), "config", "schema"): &settings,
		} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(values.Properties.Config, settings) {
			t.Errorf("%s/values.schema.json has other settings than the service: run make docs", chart)
		}
	}
}
