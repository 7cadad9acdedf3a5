package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Each row of the table sets existing fields and states its source.
func TestVendorTable(t *testing.T) {
	fresh := json.NewDecoder(bytes.NewReader(vendorTable))
	fresh.DisallowUnknownFields()
	var list []vendorLimits
	if err := fresh.Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if len(v.API) == 0 || len(v.Rows) == 0 {
			t.Errorf("%v at %v has %d rows", v.API, v.Host, len(v.Rows))
		}
		for _, row := range v.Rows {
			set := json.NewDecoder(bytes.NewReader(row.Set))
			set.DisallowUnknownFields()
			if err := set.Decode(&Limits{}); err != nil {
				t.Errorf("%s: %s", row.Set, err)
			}
			if !strings.Contains(row.Source, "https://") {
				t.Errorf("%s has no source", row.Set)
			}
		}
	}
}
