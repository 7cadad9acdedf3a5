package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// order is a customer's order.
type order struct {
	ID      string  `json:"order_id"`
	Item    string  `json:"item"`
	USD     float64 `json:"price_usd"`
	Status  string  `json:"status"`
	Days    int     `json:"days_since_delivery,omitempty"`
	Address string  `json:"address"`
	// Refund is what was paid back.
	Refund float64 `json:"refunded_usd,omitempty"`
}

// desk is an order desk: customers by e-mail address, and their orders.
type desk struct {
	customers map[string]string
	orders    map[string][]order
	want      map[string][]order
	// answer is what the customer must be told, at least.
	answer string
}

const returnFee = 4.90

var deskTools = []llms.Tool{
	tool("find_customer", "Find a customer by mail.", "email: the customer's mail"),
	tool("list_orders", "List the ids and items of a customer's orders.", "customer_id: id of the customer"),
	tool("get_order", "Show one order.", "order_id: id of the order"),
	tool("cancel_order", "Cancel an order that was not shipped.", "order_id: id of the order"),
	tool("refund", "Pay money back for an order.", "order_id: id of the order", "amount_usd number: US dollars"),
	tool("change_address", "Change the address of an order that was not shipped.", "order_id: id of the order", "address: the new address"),
}

const deskSystem = `You work at an order desk. Do what the customer asks as far as these rules allow, then answer the customer in a sentence.
What was not shipped is cancelled. What was delivered at most 30 days ago is paid back less 4.90 USD; what came damaged is paid back whole, whenever.
What is under way, or was delivered longer ago, can be neither cancelled nor paid back. Addresses change only for orders that were not shipped.`

// OrderDesk returns the agent of an order desk, with n tasks.
func OrderDesk(n int) *Agent {
	a := &Agent{Name: "order desk", System: deskSystem, Tools: deskTools}
	for i := range n {
		a.Tasks = append(a.Tasks, deskTask(i))
	}
	return a
}

func (d *desk) clone() *desk {
	c := *d
	c.orders = map[string][]order{}
	for id, list := range d.orders {
		c.orders[id] = slices.Clone(list)
	}
	return &c
}

func (d *desk) find(id string) *order {
	for _, list := range d.orders {
		for i := range list {
			if list[i].ID == id {
				return &list[i]
			}
		}
	}
	return nil
}

// Do runs one of the desk's tools.
func (d *desk) Do(_ context.Context, c Call) (string, error) {
	var a struct {
		Email      string  `json:"email"`
		CustomerID string  `json:"customer_id"`
		OrderID    string  `json:"order_id"`
		Address    string  `json:"address"`
		USD        float64 `json:"amount_usd"`
	}
	if err := c.arguments(&a); err != nil {
		return err.Error(), nil
	}
	o := d.find(a.OrderID)
	switch {
	case c.Name == "find_customer":
		if id, ok := d.customers[a.Email]; ok {
			return fmt.Sprintf(`{"customer_id": %q, "email": %q}`, id, a.Email), nil
		}
		return "error: no customer has this mail", nil
	case c.Name == "list_orders":
		list, ok := d.orders[a.CustomerID]
		if !ok {
			return "error: there is no such customer", nil
		}
		type line struct {
			ID   string `json:"order_id"`
			Item string `json:"item"`
		}
		short := make([]line, len(list))
		for i, o := range list {
			short[i] = line{o.ID, o.Item}
		}
		data, err := json.Marshal(short)
		return string(data), err
	case o == nil:
		return "error: there is no such order", nil
	case c.Name == "get_order":
		data, err := json.Marshal(o)
		return string(data), err
	case c.Name == "refund" && o.Status == "delivered" && o.Refund == 0 && a.USD > 0 && a.USD <= o.USD:
		o.Refund = a.USD
	case c.Name == "cancel_order" && o.Status == "placed":
		o.Status = "cancelled"
	case c.Name == "change_address" && o.Status == "placed":
		o.Address = a.Address
	default:
		return "error: this order is " + o.Status + ": not possible", nil
	}
	return "done", nil
}

// Right compares the orders with their expected state, and looks for the news in the answer, whatever its wording.
func (d *desk) Right(answer string) bool {
	for id, list := range d.orders {
		if !slices.Equal(list, d.want[id]) {
			return false
		}
	}
	return strings.Contains(answer, d.answer)
}

// settle applies the rules for an order that is no longer wanted.
func (o *order) settle(damaged bool) {
	switch {
	case o.Status == "placed":
		o.Status = "cancelled"
	case o.Status == "delivered" && damaged:
		o.Refund = o.USD
	case o.Status == "delivered" && o.Days <= 30:
		o.Refund = cents(o.USD - returnFee)
	}
}

func cents(usd float64) float64 { return float64(int(usd*100+0.5)) / 100 }

func deskTask(i int) *Task {
	r := rand.New(rand.NewPCG(uint64(i), 0xde5c))
	d := &desk{customers: map[string]string{}, orders: map[string][]order{}}
	items := []string{"kettle", "lamp", "desk fan", "blender", "toaster", "radio", "rug", "chair", "mirror", "clock"}
	name := pick(r, []string{"ann", "bob", "cleo", "dan", "eva", "finn", "gus", "hana"})
	mail := fmt.Sprintf("%s.%d@example.com", name, 100+i)
	for k, m := range []string{mail, fmt.Sprintf("%s.%d@example.com", name, 400+i)} {
		id := fmt.Sprintf("C%d", 5000+2*i+k)
		d.customers[m] = id
		r.Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
		for j := range 3 {
			o := order{
				ID: fmt.Sprintf("%d", 70000+i*20+k*10+j), Item: items[j], USD: cents(15 + 180*r.Float64()),
				Status: pick(r, []string{"placed", "placed", "shipped", "delivered", "delivered"}), Address: "12 Elm Street",
			}
			if o.Status == "delivered" {
				o.Days = 3 + r.IntN(55)
			}
			d.orders[id] = append(d.orders[id], o)
		}
	}
	d.want = d.clone().orders
	mine := d.want[d.customers[mail]]
	t := &Task{ID: fmt.Sprintf("D-%03d", i), Open: func() World { return d.clone() }}
	switch i % 3 {
	case 0, 1:
		d.answer = "is settled"
		// One thing or several, not wanted any more or damaged.
		var about []string
		damaged := i%3 == 1
		for j := range 1 + (i/3)%3 {
			mine[j].settle(damaged)
			about = append(about, mine[j].Item)
		}
		why := "I do not want it any more"
		if damaged {
			why = "it came damaged, if it came"
		}
		t.Prompt = fmt.Sprintf("[%s] Mail from %s: about my %s: %s. Please see to it.", t.ID, mail, strings.Join(about, " and my "), why)
		t.Solve = func(s *Conversation) { settleOrders(s, mail, about, damaged) }
	default:
		d.answer = "new address"
		address := fmt.Sprintf("%d Oak Avenue", 2+r.IntN(90))
		for j := range mine {
			if mine[j].Status == "placed" {
				mine[j].Address = address
			}
		}
		t.Prompt = fmt.Sprintf("[%s] Mail from %s: I have moved. Please send what was not shipped yet to %s.", t.ID, mail, address)
		t.Solve = func(s *Conversation) { moveOrders(s, mail, address) }
	}
	return t
}

// ordersOf does the first two steps: find the customer, then the customer's orders.
func ordersOf(s *Conversation, mail string) []order {
	user, host, _ := strings.Cut(mail, "@")
	first, number, _ := strings.Cut(user, ".")
	found, _ := s.do(Step{
		Kind: Look, Name: "customer", Right: calls("find_customer", args{"email": mail}),
		Wrong: calls("find_customer", args{"email": first + "@" + host}, args{"email": first + number + "@" + host}, args{"email": user}),
	})
	id := decode[struct {
		ID string `json:"customer_id"`
	}](found).ID
	listed, _ := s.do(Step{
		Kind: Look, Name: "orders", Right: calls("list_orders", args{"customer_id": id}),
		Wrong: calls("list_orders", args{"customer_id": mail}, args{"customer_id": strings.TrimPrefix(id, "C")}, args{"customer_id": "C" + number}),
	})
	return decode[[]order](listed)
}

// settleOrders looks at each order and applies the rules.
func settleOrders(s *Conversation, mail string, about []string, damaged bool) {
	list := ordersOf(s, mail)
	for n, item := range about {
		at := max(0, slices.IndexFunc(list, func(o order) bool { return o.Item == item }))
		var id string
		var others []args
		for k := range list {
			o := list[(at+k)%len(list)]
			if k == 0 {
				id = o.ID
			} else {
				others = append(others, args{"order_id": o.ID})
			}
		}
		others = append(others, args{"order_id": item}, args{"order_id": "#" + id})
		shown, done := s.do(Step{Kind: Pick, Name: fmt.Sprintf("order %d", n), Right: calls("get_order", args{"order_id": id}), Wrong: calls("get_order", others...)})
		if !done {
			return
		}
		o := decode[order](shown)
		after := o
		after.settle(damaged)
		cancel, full := calls("cancel_order", args{"order_id": o.ID}), calls("refund", args{"order_id": o.ID, "amount_usd": o.USD})
		less := calls("refund", args{"order_id": o.ID, "amount_usd": cents(o.USD - returnFee)})
		tenth := calls("refund", args{"order_id": o.ID, "amount_usd": cents(o.USD * 0.9)})
		act := Step{Kind: Act, Name: fmt.Sprintf("settle %d", n)}
		switch {
		case after.Status == "cancelled":
			act.Right, act.Wrong = cancel, slices.Concat(less, full, tenth)
		case after.Refund == o.USD && damaged:
			act.Right, act.Wrong = full, slices.Concat(less, cancel, tenth)
		case after.Refund > 0:
			act.Right, act.Wrong = less, slices.Concat(full, tenth, cancel)
		default:
			continue // nothing is to be done about this one
		}
		if _, done := s.do(act); !done {
			return
		}
	}
	s.reply("Your order is settled.")
}

// moveOrders looks at each order and moves those that have not been shipped.
func moveOrders(s *Conversation, mail, address string) {
	for n, o := range ordersOf(s, mail) {
		shown, done := s.do(Step{
			Kind: Pick, Name: fmt.Sprintf("order %d", n), Right: calls("get_order", args{"order_id": o.ID}),
			Wrong: calls("get_order", args{"order_id": o.Item}, args{"order_id": "#" + o.ID}, args{"order_id": o.ID + "0"}),
		})
		if !done {
			return
		}
		now := decode[order](shown)
		if now.Status != "placed" {
			continue
		}
		short, _, _ := strings.Cut(address, " ")
		if _, done := s.do(Step{
			Kind: Act, Name: fmt.Sprintf("move %d", n), Right: calls("change_address", args{"order_id": o.ID, "address": address}),
			Wrong: calls("change_address", args{"order_id": o.ID, "address": now.Address}, args{"order_id": o.ID, "address": short}, args{"order_id": o.ID, "address": address + ", 2nd floor"}),
		}); !done {
			return
		}
	}
	s.reply("What was not shipped goes to your new address.")
}

// reply is the last step of an agent that answers in prose; each maker words it differently.
func (s *Conversation) reply(text string) {
	s.do(Step{
		Kind: Answer, Name: "answer",
		Right: texts(text, "Dear customer, "+strings.ToLower(text[:1])+text[1:], "Done! "+text, "Hello, thank you for writing. "+text+" Have a nice day.", text+" Anything else?"),
		Wrong: texts("Shall I go on?", "It is under way.", "Everything was cancelled and paid back.", "We will write to you next week."),
	})
}
