-- The present period of an account. One that was begun stays the present one when the clock goes back. When the
-- account's periods have become longer, what was spent in those that the present one includes counts in the latest.
CREATE OR REPLACE FUNCTION stepfall.present(p_account text, p_length bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	this bigint := 0;
	latest bigint;
	earlier bigint;
	amount bigint;
BEGIN
	IF p_length > 0 THEN
		this := stepfall.now_ns() / p_length * p_length;
	END IF;
	SELECT period INTO latest FROM stepfall.accounts WHERE account = p_account ORDER BY period DESC LIMIT 1;
	IF latest > this AND latest <= stepfall.now_ns() THEN
		FOR earlier IN SELECT period FROM stepfall.accounts WHERE account = p_account AND period >= this AND period < latest AND spent <> 0 ORDER BY period LOOP
			SELECT spent INTO amount FROM stepfall.accounts WHERE account = p_account AND period = earlier FOR UPDATE;
			UPDATE stepfall.accounts SET spent = 0 WHERE account = p_account AND period = earlier;
			UPDATE stepfall.accounts SET spent = spent + amount WHERE account = p_account AND period = latest;
		END LOOP;
	END IF;
	RETURN greatest(this, latest);
END $$;
