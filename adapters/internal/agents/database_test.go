package agents

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tmc/langchaingo/llms"
	_ "modernc.org/sqlite" // the driver
)

const databaseSystem = `You answer questions about a shop's SQLite database. Look at the tables before you query them.
When you know the answer, say nothing but {"answer": ...}, with a number or a text.`

// tables are the CREATE statements of the shop's database.
var tables = []struct{ name, create string }{
	{"customers", "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, tier TEXT)"},
	{"products", "CREATE TABLE products (id INTEGER PRIMARY KEY, title TEXT, category TEXT, cents INTEGER)"},
	{"sales", "CREATE TABLE sales (id INTEGER PRIMARY KEY, customer_id INTEGER, product_id INTEGER, quantity INTEGER, month INTEGER, returned INTEGER)"},
}

var (
	cities     = []string{"Oslo", "Turin", "Lyon", "Porto", "Ghent"}
	categories = []string{"books", "games", "tools", "plants"}
	tiers      = []string{"basic", "plus"}
)

// shop is the shop's database. It is read-only, so query results are cached.
type shop struct {
	db      *sql.DB
	mu      sync.Mutex
	results map[string]string
}

// question is the world of one task.
type question struct {
	shop *shop
	want string
}

// Database returns the agent that answers questions with SQL, with n tasks. The caller calls close after the last
// run.
func Database(ctx context.Context, n int) (a *Agent, closeDatabase func() error, err error) {
	s := &shop{results: map[string]string{}}
	if s.db, err = sql.Open("sqlite", ":memory:"); err != nil {
		return nil, nil, fmt.Errorf("opening the shop's database: %w", err)
	}
	s.db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if err := s.fill(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("filling the shop's database: %w", err), s.db.Close())
	}
	a = &Agent{Name: "SQL over SQLite", System: databaseSystem, Tools: []llms.Tool{
		tool("list_tables", "List the tables."),
		tool("describe_table", "Show how a table was created.", "table: its name"),
		tool("query", "Run a query in SQL.", "sql: one SELECT"),
	}}
	for i := range n {
		t, err := s.task(ctx, i)
		if err != nil {
			return nil, nil, errors.Join(err, s.db.Close())
		}
		a.Tasks = append(a.Tasks, t)
	}
	return a, s.db.Close, nil
}

func (s *shop) fill(ctx context.Context) error {
	r := rand.New(rand.NewPCG(7, 0x5a1e5))
	var list []string
	for _, t := range tables {
		list = append(list, t.create)
	}
	for i := range 60 {
		list = append(list, fmt.Sprintf("INSERT INTO customers VALUES (%d, 'customer %d', '%s', '%s')", i+1, i+1, pick(r, cities), pick(r, tiers)))
	}
	for i := range 30 {
		list = append(list, fmt.Sprintf("INSERT INTO products VALUES (%d, 'article %d', '%s', %d)", i+1, i+1, pick(r, categories), 300+r.IntN(9000)))
	}
	for i := range 700 {
		list = append(list, fmt.Sprintf("INSERT INTO sales VALUES (%d, %d, %d, %d, %d, %d)", i+1, 1+r.IntN(60), 1+r.IntN(30), 1+r.IntN(4), 1+r.IntN(12), r.IntN(8)/7))
	}
	_, err := s.db.ExecContext(ctx, strings.Join(list, ";"))
	return err
}

// Do runs a tool. Queries cannot write: the statement must be a SELECT.
func (q *question) Do(ctx context.Context, c Call) (string, error) {
	var a struct{ Table, SQL string }
	if err := c.arguments(&a); err != nil {
		return err.Error(), nil
	}
	switch c.Name {
	case "list_tables":
		var names []string
		for _, t := range tables {
			names = append(names, t.name)
		}
		return strings.Join(names, ", "), nil
	case "describe_table":
		for _, t := range tables {
			if t.name == a.Table {
				return t.create, nil
			}
		}
		return "error: no such table", nil
	}
	if !strings.HasPrefix(strings.ToUpper(a.SQL), "SELECT") {
		return "error: only SELECT", nil
	}
	return q.shop.query(ctx, a.SQL)
}

// query returns the rows of a query as lists in JSON, at most 20.
func (s *shop) query(ctx context.Context, text string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.results[text]; ok {
		return known, nil
	}
	rows, err := s.db.QueryContext(ctx, text)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		s.results[text] = "error: " + err.Error()
		return s.results[text], nil
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	all := [][]any{}
	for rows.Next() && len(all) < 20 {
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return "", err
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	data, err := json.Marshal(all)
	s.results[text] = string(data)
	return string(data), err
}

// Right compares the answer with the result of the query that the question was made from.
func (q *question) Right(answer string) bool {
	got := decode[struct{ Answer any }](answer).Answer
	if x, err := strconv.ParseFloat(q.want, 64); err == nil {
		y, ok := got.(float64)
		return ok && x == y
	}
	return fmt.Sprint(got) == q.want
}

// first returns the n-th value of the first row, or 0.
func first(rows string, n int) any {
	if list := decode[[][]any](rows); len(list) > 0 && n < len(list[0]) {
		return list[0][n]
	}
	return 0
}

// ask is one query that a question needs: correct ways of writing it, and wrong ones. %v stands for the result of the
// previous query.
type ask struct{ right, wrong []string }

func (s *shop) task(ctx context.Context, i int) (*Task, error) {
	r := rand.New(rand.NewPCG(uint64(i), 0xda7a))
	city, other, category, month := pick(r, cities), pick(r, cities), pick(r, categories), 1+r.IntN(11)
	var asked string
	var looks []string
	var list []ask
	switch i % 4 {
	case 0:
		asked = fmt.Sprintf("How many %s customers live in %s?", "plus", city)
		looks = []string{"customers"}
		list = []ask{{
			[]string{
				fmt.Sprintf("SELECT COUNT(*) FROM customers WHERE city = '%s' AND tier = 'plus'", city),
				fmt.Sprintf("SELECT COUNT(*) FROM customers WHERE tier = 'plus' AND city = '%s'", city),
				fmt.Sprintf("SELECT COUNT(id) AS n FROM customers WHERE city = '%s' AND tier = 'plus'", city),
			},
			[]string{
				fmt.Sprintf("SELECT COUNT(*) FROM customers WHERE city = '%s'", city),
				fmt.Sprintf("SELECT COUNT(*) FROM customers WHERE city = '%s' AND plus = 1", city),
				fmt.Sprintf("SELECT COUNT(*) FROM customers WHERE city = '%s' AND tier = 'Plus'", strings.ToLower(city)),
				"SELECT COUNT(*) FROM customers WHERE tier = 'plus'",
			},
		}}
	case 1:
		asked = fmt.Sprintf("What did the category %s sell for in month %d, in cents, without what was returned?", category, month)
		looks = []string{"sales", "products"}
		from := "FROM sales s JOIN products p ON p.id = s.product_id WHERE p.category = '" + category + "'"
		list = []ask{{
			[]string{
				fmt.Sprintf("SELECT SUM(s.quantity * p.cents) %s AND s.month = %d AND s.returned = 0", from, month),
				fmt.Sprintf("SELECT SUM(quantity * cents) FROM sales JOIN products ON products.id = product_id WHERE category = '%s' AND month = %d AND returned = 0", category, month),
				fmt.Sprintf("SELECT SUM(p.cents * s.quantity) AS total %s AND s.returned = 0 AND s.month = %d", from, month),
			},
			[]string{
				fmt.Sprintf("SELECT SUM(s.quantity * p.cents) %s AND s.month = %d", from, month),
				fmt.Sprintf("SELECT SUM(p.cents) %s AND s.month = %d AND s.returned = 0", from, month),
				fmt.Sprintf("SELECT SUM(s.quantity * p.price) %s AND s.month = %d AND s.returned = 0", from, month),
				fmt.Sprintf("SELECT SUM(s.quantity * p.cents) %s AND s.month = %d AND s.returned = 1", from, month),
			},
		}}
	case 2:
		asked = fmt.Sprintf("Of the customers in %s, who bought the most articles, and how many did that customer buy of the category %s? Answer with the number.", city, category)
		looks = []string{"customers", "sales", "products"}
		group := "FROM sales s JOIN customers c ON c.id = s.customer_id WHERE c.city = '" + city + "' GROUP BY c.id ORDER BY SUM(s.quantity)"
		list = []ask{
			{
				[]string{
					"SELECT c.id, SUM(s.quantity) " + group + " DESC, c.id LIMIT 1",
					"SELECT c.id, SUM(s.quantity) AS n FROM customers c JOIN sales s ON s.customer_id = c.id WHERE c.city = '" + city + "' GROUP BY c.id ORDER BY n DESC, c.id LIMIT 1",
				},
				[]string{
					"SELECT c.id, COUNT(*) FROM sales s JOIN customers c ON c.id = s.customer_id WHERE c.city = '" + city + "' GROUP BY c.id ORDER BY COUNT(*) DESC LIMIT 1",
					"SELECT c.id, SUM(s.quantity) " + group + " LIMIT 1",
					"SELECT customer_id, SUM(quantity) FROM sales GROUP BY customer_id ORDER BY 2 DESC LIMIT 1",
					"SELECT c.id, SUM(s.amount) " + group + " DESC LIMIT 1",
				},
			},
			{
				[]string{
					"SELECT SUM(s.quantity) FROM sales s JOIN products p ON p.id = s.product_id WHERE s.customer_id = %v AND p.category = '" + category + "'",
					"SELECT SUM(quantity) FROM sales WHERE customer_id = %v AND product_id IN (SELECT id FROM products WHERE category = '" + category + "')",
				},
				[]string{
					"SELECT COUNT(*) FROM sales s JOIN products p ON p.id = s.product_id WHERE s.customer_id = %v AND p.category = '" + category + "'",
					"SELECT SUM(s.quantity) FROM sales s WHERE s.customer_id = %v",
					"SELECT SUM(s.quantity) FROM sales s JOIN products p ON p.id = s.id WHERE s.customer_id = %v AND p.category = '" + category + "'",
				},
			},
		}
	default:
		asked = fmt.Sprintf("Which city bought more in the months up to %d, by number of articles: %s or %s?", month, city, other)
		looks = []string{"customers", "sales"}
		for _, c := range []string{city, other} {
			from := "FROM sales s JOIN customers c ON c.id = s.customer_id WHERE c.city = '" + c + "'"
			list = append(list, ask{
				[]string{
					fmt.Sprintf("SELECT SUM(s.quantity), '%s' %s AND s.month <= %d", c, from, month),
					fmt.Sprintf("SELECT SUM(quantity), '%s' FROM sales WHERE month <= %d AND customer_id IN (SELECT id FROM customers WHERE city = '%s')", c, month, c),
				},
				[]string{
					fmt.Sprintf("SELECT SUM(s.quantity), '%s' %s AND s.month < %d", c, from, month),
					fmt.Sprintf("SELECT COUNT(*), '%s' %s AND s.month <= %d", c, from, month),
					fmt.Sprintf("SELECT SUM(s.quantity), '%s' %s AND s.date <= %d", c, from, month),
				},
			})
		}
	}
	compare := i%4 == 3
	want, err := s.solve(ctx, list, compare)
	t := &Task{ID: fmt.Sprintf("Q-%03d", i), Open: func() World { return &question{shop: s, want: want} }}
	t.Prompt = fmt.Sprintf("[%s] %s", t.ID, asked)
	t.Solve = func(c *Conversation) { queryTables(c, looks, list, compare) }
	return t, err
}

// solve returns the answer to a question by the correct queries.
func (s *shop) solve(ctx context.Context, list []ask, compare bool) (string, error) {
	var rows []string
	for _, a := range list {
		text := a.right[0]
		if strings.Contains(text, "%v") {
			text = fmt.Sprintf(text, first(rows[0], 0))
		}
		got, err := s.query(ctx, text)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(got, "error:") {
			return "", fmt.Errorf("%s: %s", text, got)
		}
		rows = append(rows, got)
	}
	return fmt.Sprint(resultOf(rows, compare)), nil
}

// resultOf returns the answer that follows from the results of the queries.
func resultOf(rows []string, compare bool) any {
	last := first(rows[len(rows)-1], 0)
	if !compare {
		if last == nil {
			return 0
		}
		return last
	}
	a, _ := first(rows[0], 0).(float64)
	b, _ := last.(float64)
	if b > a {
		return first(rows[1], 1)
	}
	return first(rows[0], 1)
}

// queryTables looks at the tables, runs the queries one after the other, and concludes.
func queryTables(s *Conversation, looks []string, list []ask, compare bool) {
	s.do(Step{Kind: Look, Name: "tables", Right: calls("list_tables", args{}), Wrong: calls("describe_table", args{"table": "orders"}, args{"table": "shop"}, args{"table": "*"})})
	for _, table := range looks {
		s.do(Step{
			Kind: Look, Name: "describe " + table, Right: calls("describe_table", args{"table": table}),
			Wrong: calls("describe_table", args{"table": strings.TrimSuffix(table, "s")}, args{"table": table + ", sales"}, args{"table": "shop." + table}),
		})
	}
	var rows []string
	for n, a := range list {
		step := Step{Kind: Write, Name: fmt.Sprintf("query %d", n)}
		for _, to := range []struct {
			moves *[]Move
			texts []string
		}{{&step.Right, a.right}, {&step.Wrong, a.wrong}} {
			for _, text := range to.texts {
				if strings.Contains(text, "%v") && len(rows) > 0 {
					text = fmt.Sprintf(text, first(rows[0], 0))
				}
				*to.moves = append(*to.moves, calls("query", args{"sql": text})...)
			}
		}
		got, done := s.do(step)
		if !done {
			return
		}
		rows = append(rows, got)
	}
	value := resultOf(rows, compare)
	wrong := []any{0, "unknown", len(rows[0])}
	switch v := value.(type) {
	case float64:
		wrong = append(wrong, v/100, v+1)
	case string:
		wrong = append(wrong, cities[(slices.Index(cities, v)+1)%len(cities)])
	}
	step := Step{Kind: Answer, Name: "answer", Right: texts(textOf(value))}
	for _, w := range wrong {
		step.Wrong = append(step.Wrong, Move{Text: textOf(w)})
	}
	s.do(step)
}

func textOf(value any) string {
	data, err := json.Marshal(map[string]any{"answer": value})
	if err != nil {
		panic(err) // it was JSON before
	}
	return string(data)
}
