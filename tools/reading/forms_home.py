"""Letters, messages, diaries, recipes, instructions and dialogues, as prose.py reads them."""

TEXT = r"""
form letter
part writer=person reader=first town=place day=date
open {town}, {day}\n\n[Dear|My dear|Dear] {reader},
open {day}\n\nDear {reader},
open [Hello|Hi] {reader},
close [With best wishes|Yours sincerely|Ever yours|Love|Kind regards|Until soon],\n{writer}
close {writer}
ask writer: Who [wrote|signed|sent] the letter to {reader}? | By whom was the letter to {reader} written?
ask reader: To whom did {writer} write? | Who is the letter from {writer.first} addressed to?
frame who=kin thing=thing price=price shop=firm
say [Last week|On my birthday|You will laugh, but] my {who} gave me a {thing}, which [had cost|cost] {price} at {shop}.
say I have a {thing} now: my {who} found it at {shop} and paid {price} for it.
say Thank you for asking about the {thing}. It came from {shop}, where my {who} bought it for {price}.
ask who: Who gave the writer the {thing}? | From whom is the {thing}?
ask price: How much did the {thing} cost? | What was paid for the {thing}? | What was the price at {shop}?
ask shop: Where was the {thing} bought? | Which shop sold the {thing}? | From where did the {thing} come?
ask thing: What did the {who} buy at {shop}? | What was bought for {price}?
frame hour=hour place=place who=person day=weekday
say [We|I] arrive in {place} on {day} at {hour}, and {who} will [fetch us|meet us|wait] at the station.
say {who} has promised to meet the train at {place}; it gets in at {hour} on {day}.
say On {day}, at {hour}, I shall be in {place}. If I am late, ask {who}, who knows the way.
ask hour: At what time does the [train|writer] arrive in {place}? | When on {day} is the arrival?
ask place: Where is the arrival on {day}? | In which town does {who} wait?
ask who: Who will be at the station of {place}? | Who waits in {place}? | Who meets the train?
ask day: On which day is the arrival in {place}? | On what weekday does {who} wait in {place}?
frame who=person trade=trade town=place years=duration
say Do you remember {who}? [He|She] works as a {trade} in {town} now and has been there for {years}.
say I met {who} again after all this time. {who.first} moved to {town} {years} ago and became a {trade}.
say {who} is a {trade}, [lives|and lives] in {town}, and says that {years} there are enough.
ask trade: What does {who} work as? | What is the trade of {who}? | What did {who} become?
ask town: Where does {who} live? | To which town did {who} move?
ask years: For how long has {who} been in {town}? | How long ago did {who} move?
ask who: Who is a {trade}? | Who [moved to|lives in] {town}?
frame beast=beast name=made food=food who=kin
say The {beast} is called {name} and eats nothing but {food}; my {who} spoils it.
say My {who} keeps a {beast}, {name} by name. It lives on {food}.
ask name: What is the {beast} called? | What is the name of the {beast}?
ask food: What does {name} eat? | What does the {beast} live on?
ask who: Who keeps the {beast}? | Who spoils {name}?
ask beast: What kind of animal is {name}? | What is {name}?
frame trouble=trouble time=duration who=person cost=price
say We could not come because {trouble}. {who} needed {time} to put it right and asked for {cost}.
say I am sorry for the silence: {trouble}, and only after {time} did {who} come and mend it, for {cost}.
ask trouble: Why could they not come? | What was the reason for the silence?
ask time: How long did it take {who}? | After how long was it put right?
ask who: Who put it right? | Who mended it? | Who was paid {cost}?
ask cost: How much did {who} ask for? | What did the repair cost?
frame place=place plan=deed month=date who=person
say In the summer {who} and I mean to {plan}, and on {month} we go to {place}.
say Our plans: first we {plan}, then we leave for {place} with {who}, on {month}.
ask plan: What do they mean to do before the journey? | What is planned with {who}?
ask place: Where do they go on {month}? | What is the goal of the journey with {who}?
ask month: When do they leave for {place}? | On what day do they go to {place}?
ask who: With whom does the writer go to {place}? | Who comes along to {place}?
frame room=room plant=plant colour=colour number=small
say The new flat has {number} rooms. {Room} is painted {colour}, and there are {plant} on the balcony.
say I have painted {room} {colour}; of the {number} rooms it is the only dry one. Outside I grow {plant}.
ask number: How many rooms [has the flat|are there]?
ask colour: What colour is {room}? | In what colour was {room} painted?
ask plant: What grows [outside|on the balcony]? | Which plants are there?
ask room: Which room is {colour}? | Which room was painted {colour}?
frame book=title author=person who=person page=number
say {who} lent me "{book}" by {author}, and I am on page {page}.
say Have you read "{book}"? {author} wrote it. I stopped at page {page}; {who} says the end is better.
ask author: Who wrote "{book}"? | Who is the author of "{book}"?
ask page: On which page [is the writer|did the writer stop]?
ask book: Which book did {author} write? | What is the title of the book by {author}?
ask who: Who [lent the book|knows the end of "{book}"]?

form message
part sender=person phone=phone
open [Message|Note] from {sender} ({phone}):
open {sender} called; [his|her] number is {phone}.
ask phone: [What is|Under which number can one reach] {sender}[|'s number]? | What is the phone number of {sender}?
ask sender: Who called from {phone}? | Whose number is {phone}?
frame key=thing place=room who=person hour=hour
say The key with the {key} on it is in {place}; please hand it to {who} before {hour}.
say {who} comes for the key at {hour}. It hangs in {place}, beside the {key}.
ask place: Where is the key? | In which room does the key hang?
ask who: Who [gets|comes for] the key? | To whom should the key be handed?
ask hour: By what time is the key needed? | When does {who} come?
frame job=deed who=person day=weekday cost=price
say {who} can {job} on {day}, for {cost}[| if it stays dry].
say If nobody minds, {who} will {job} on {day}; that is {cost}.
ask who: Who will {job}? | Who can {job}?
ask day: On which day will {who} {job}? | When can {who} {job}?
ask cost: What does it cost to {job}? | How much does {who} want?
ask job: What will {who} do on {day}? | What can {who} do for {cost}?
frame food=food count=small shop=firm friend=kin
say Buy {count} [packets|bags|boxes] of {food} at {shop}, my {friend} needs them.
say We are out of {food}. {shop} has it; {count} bags are enough, says my {friend}.
ask count: How many [packets|bags|boxes] of {food} are needed?
ask food: What should be bought at {shop}? | What is there none of?
ask shop: Where is the {food} to be bought? | Which shop has {food}?
ask friend: Who needs the {food}? | Who says how many are enough?
frame train=code track=small town=place wait=wait
say Train {train} to {town} leaves from platform {track} and is {wait} late.
say Take the {train} for {town}, platform {track}. It is running {wait} late.
ask track: From which platform does [train {train}|the train to {town}] leave?
ask train: Which train goes to {town}? | What is the number of the train to {town}?
ask wait: How late is [train {train}|the train to {town}]? | By how much is the {train} late?
ask town: Where does {train} go? | To which town does train {train} run?

form diary
part keeper=person year=year
open [From the diary|Diary] of {keeper}, {year}
open {keeper}'s notebook for {year}
ask keeper: Whose [diary|notebook] is it? | Who kept the diary of {year}?
ask year: From which year is the [diary|notebook] of {keeper}?
frame day=date place=place far=length beast=beast
say {Day}. Walked {far} to {place}, and saw a {beast} on the way.
say {Day}: rain. I got as far as {place}, {far} by the old road. A {beast} followed me.
ask far: How far is it to {place}? | How far did the writer [walk|go] on {day}?
ask place: Where did the writer [walk|go] on {day}? | To which place was it {far}?
ask beast: What [did the writer see|followed the writer] on the way to {place}? | Which animal was met on {day}?
ask day: On what day did the writer go to {place}? | When did the writer meet the {beast}?
frame day=date who=person dish=dish room=room
say {Day}. Supper with {who} in {room}. There was {dish}, and too much of it.
say {Day}: {who} came and cooked {dish}. We ate in {room}, because of the guests.
ask who: With whom was the supper on {day}? | Who came on {day}?
ask dish: What was eaten on {day}? | What did [they eat with|they have when] {who}[| came]?
ask room: Where was the supper with {who}? | In which room did they eat {dish}?
frame day=date thing=a_thing who=person price=price
say {Day}. Sold {thing} to {who} for {price}. I shall miss it.
say {Day}: at last {who} has paid the {price} for {thing}.
ask who: To whom was {thing} sold? | Who bought {thing}? | Who paid {price}?
ask price: For how much was {thing} sold? | How much did {who} pay?
ask thing: What was sold to {who}? | What did {who} buy?
frame day=date patient=kin ill=duration doctor=person
say {Day}. My {patient} has been in bed for {ill}. {doctor} comes every morning.
ask ill: For how long has the {patient} been [in bed|ill]?
ask patient: Who has been in bed? | Who is ill?
ask doctor: Who comes every morning? | Which doctor looks after the {patient}?

form recipe
part dish=dish cook=person serves=small
open {Dish} [by|after] {cook}\n\nFor {serves} people
open # {Dish}\n\n{cook}'s recipe, enough for {serves}.
open How {cook} makes {dish} (serves {serves})
ask serves: For how many people is the {dish}? | How many does the {dish} serve?
ask cook: Whose recipe is the {dish}? | Who makes the {dish}?
frame a=food qa=quantity b=food qb=quantity
say - {qa} [of |]{a}\n- {qb} [of |]{b}
say You need {qa} of {a} and {qb} of {b}.
say [Mix|Stir together|Beat] {qa} of {a} with {qb} of {b} [in a bowl|until smooth|by hand].
ask qa: How much {a} is needed? | How much {a} goes into it?
ask qb: How much {b} [is needed|do you take]? | What quantity of {b} does it take?
ask a: Of what do you take {qa}? | What is mixed with the {b}?
frame heat=degrees time=wait tin=material
say Bake at {heat} for {time} in a tin of {tin}.
say Heat the oven to {heat}. Put the dish of {tin} in and leave it there for {time}.
ask heat: At what temperature is it baked? | How hot is the oven?
ask time: How long [is it baked|does it stay in the oven]?
ask tin: What is the [tin|dish] made of? | In a [tin|dish] of what is it baked?
frame herb=food water=quantity time=wait
say [Simmer|Boil] the {herb} in {water} of water for {time}, then drain it.
say Meanwhile cover the {herb} with {water} of water and let it stand for {time}.
ask time: How long is the {herb} [cooked|left] in water? | For how long does the {herb} stay in the water?
ask water: In how much water [is|does one put] the {herb}[|boiled]?
ask herb: What [goes into|is put in] {water} of water? | What is drained?
frame top=food side=food drink=goods
say [Serve|Eat it] with {side}, and sprinkle {top} over it[| just before it comes to the table].
say It is served with {side}; {top} on top is a matter of taste.
ask side: What is it served with? | With what is the dish eaten?
ask top: What is [sprinkled over it|put on top]? | What comes on top?
frame keep=duration place=room warn=food
say It keeps for {keep} in {place}. Never add {warn}, which spoils it.
say In {place} it will keep {keep}. Beware of {warn}.
ask keep: How long does it keep? | For how long can one keep it?
ask place: Where does it keep? | Where is it stored?
ask warn: What must [never be added|one beware of]? | What spoils it?
frame town=place year=year who=kin
say The recipe comes from {town}, where the cook's {who} wrote it down in {year}.
say It was first cooked in {town} in {year}, by the {who} of the cook.
ask town: From where does the recipe come? | In which town was it first [cooked|written down]?
ask year: In what year was the recipe [written down|first cooked]? | From when is the recipe?
ask who: Who [wrote the recipe down|cooked it first]?

form dialogue
part one=person two=person place=room
open [In|Overheard in] {place}: {one} and {two}.
open A conversation between {one} and {two}, in {place}.
ask place: Where do {one.first} and {two.first} talk? | In which room is the conversation?
frame thing=the_thing shelf=room who=person
say "[Where did you put|Have you seen] {thing}?" asked {one.first}. "In {shelf}," said {two.first}, "{who} needed it there."
say {two.first} said: "{who} has taken {thing} to {shelf}."
ask shelf: Where is {thing}? | Where was {thing} put?
ask who: Who [needed|has taken] {thing}? | For whom is {thing} in {shelf}?
ask thing: What is in {shelf}? | What did {who} need?
frame years=duration job=trade firm=firm
say "How long have you been a {job}?" - "{Years}," {two.first} answered, "all of them with {firm}."
say "I worked for {firm} for {years}, as a {job}," said {two.first}.
ask years: How long has {two.first} been a {job}? | How long did {two} work for {firm}?
ask job: What is {two}'s trade? | As what did {two.first} work?
ask firm: For whom [did|does] {two.first} work? | Which firm [employed|employs] {two}?
frame price=price thing=thing offer=price
say "{price} for the {thing}?" {one.first} shook his head. "I can give you {offer}."
say {one.first} wanted {price} for the {thing}, but {two.first} offered only {offer}.
ask price: How much was asked for the {thing}? | What was the {thing} to cost?
ask offer: How much was offered for the {thing}? | What was the offer?
ask thing: What was to be sold for {price}? | What are they bargaining about?
frame tongue=tongue teacher=person months=duration
say "Who taught you {tongue}?" - "{teacher}, in {months}."
say {one.first} learned {tongue} from {teacher} within {months}.
ask tongue: Which language was learned [in {months}|from {teacher}]? | What does {teacher} teach?
ask teacher: Who taught the language? | From whom was {tongue} learned?
ask months: How long did it take to learn {tongue}? | In what time was {tongue} learned?
frame bus=number stop=street first=hour
say "Take bus {bus} to {stop}. The first one goes at {first}."
say "To {stop}? That is the {bus}," {two.first} explained. "It starts at {first}."
ask bus: Which bus goes to {stop}? | What bus should one take?
ask stop: Where does bus {bus} go? | To which street does bus {bus} go?
ask first: When does [the first bus|bus {bus}] go? | At what time does it start?

form instructions
part tool=product maker=brand
open [How to use|Instructions for] your {maker} {tool}
open The {maker} {tool}: first steps
ask maker: Who makes the {tool}? | Of which brand is the {tool}?
frame button=colour time=wait lamp=colour
say Press the {button} button and wait {time}, until the {lamp} lamp goes out.
say Hold the {button} button. After {time} a {lamp} light shows that it is ready.
ask button: Which button [must be pressed|is held]? | What colour is the button?
ask time: How long must one wait? | After what time is it ready?
ask lamp: What colour is the [lamp|light]? | Which lamp must one watch?
frame part=material oil=goods every=duration
say Every {every}, rub the {part} parts with {oil}.
say The parts of {part} want {oil} every {every}; nothing else needs care.
ask every: How often [are the {part} parts rubbed|does it need care]? | At what intervals is {oil} used?
ask oil: With what are the {part} parts rubbed? | What do the parts of {part} want?
ask part: Which parts need {oil}? | Of what are the parts that need care?
frame code=code meaning=trouble who=firm phone=phone
say If it shows {code}, {meaning}. Call {who} at {phone}.
say Error {code} means that {meaning}; in that case ring {who}, {phone}.
ask meaning: What does {code} mean? | What has happened if it shows {code}?
ask who: Whom should one call [about|in case of] {code}? | Which firm helps with error {code}?
ask phone: Under which number is {who} reached? | What is the number of {who}?
ask code: Which code means that {meaning}? | What does it show when {meaning}?
frame size=size load=weight floor=material
say It needs a place of {size}. Never load more than {load}, and never put it on {floor}.
ask size: How much room does it need? | How large a place does it need?
ask load: How much may be loaded? | What is the greatest load?
ask floor: On what must it not [stand|be put]? | What should not be under it?
"""
