package sqlstore

import (
	"encoding/json"
	"fmt"
	"strings"
)

// rows holds the rows of an INSERT, for the same columns: texts and whole numbers.
type rows [][]any

// source returns the row source of the INSERT with its only argument, so that the text of the statement does not grow
// with the rows.
func (d *DB) source(r rows) (query string, arg json.RawMessage, err error) {
	numbered := make(map[string][]any, len(r)) // json_each of all engines takes an object; its members are sorted
	for i, row := range r {
		numbered[fmt.Sprintf("%08d", i)] = row
	}
	var columns []string
	for i, value := range r[0] {
		column := fmt.Sprintf("value ->> %d", i)
		if _, isText := value.(string); !isText {
			column = "CAST(" + column + " AS bigint)"
		}
		columns = append(columns, column)
	}
	arg, err = json.Marshal(numbered)
	// Without a condition SQLite would take ON CONFLICT for a join.
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + d.Each + " WHERE true", arg, err
}
