package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

const kindItem = "item"

// noteName returns the name of a client's stored answer or item, unique to the client.
func (x *exchange) noteName(id string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(x.Client.Key+"\x00"+x.Client.Tenant+"\x00"+id)))
}

// keepItem stores an item of an answer of Responses in memory for an hour: some clients send its id in the next
// turn in place of the item, unless configured otherwise.
func (x *exchange) keepItem(id string, item json.RawMessage) {
	if id != "" && len(item) <= maxAnswerBytes {
		_ = x.g.items.Post(context.Background(), kindItem, x.noteName(id), item, answerTTL) // never fails in memory
	}
}

// withItems replaces references to stored items by the items.
func (g *Gateway) withItems(x *exchange, body gjson.Result) (gjson.Result, *dialect.Refusal) {
	if x.api != dialect.Responses || !strings.Contains(body.Raw, `"item_reference"`) {
		return body, nil
	}
	input := body.Get("input")
	if !input.IsArray() {
		return body, nil
	}
	var list []string
	for i, item := range input.Array() {
		if item.Get("type").Str != "item_reference" {
			list = append(list, item.Raw)
			continue
		}
		id := item.Get("id").Str
		kept, err := g.items.Note(context.Background(), kindItem, x.noteName(id))
		if err != nil || kept == nil {
			return body, dialect.Invalid(fmt.Sprintf("input[%d]", i), "item with id %.80q not found: this process keeps the items of its answers for an hour. "+
				"Send the items themselves (in the npm package ai: providerOptions.openai.store = false)", id)
		}
		list = append(list, string(kept))
	}
	at := input.Index - body.Index
	return gjson.Parse(body.Raw[:at] + "[" + strings.Join(list, ",") + "]" + body.Raw[at+len(input.Raw):]), nil
}
