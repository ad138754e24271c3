"""Product sheets, orders, adverts, contracts and reports of firms, as prose.py reads them."""

TEXT = r"""
form sheet
part model=model product=product maker=firm price=price
open # {model}\n\nThe {model} is a {product} by {maker}. [Price|It costs]: {price}.
open Product: {model} ({product})\nMaker: {maker}\nPrice: {price}
open {Product} {model}. {maker} sells it for {price}.
ask price: What does the {model} cost? | How much is the {model}? | What is the price of the {model}?
ask maker: Who makes the {model}? | Which firm sells the {model}?
ask product: What kind of thing is the {model}? | What is the {model}?
ask model: What is the {product} called? | What does {maker} make?
frame size=size weight=weight colour=colour body=material
say It measures {size}, weighs {weight} and is made of {body}. It comes in {colour}.
say - Size: {size}\n- Weight: {weight}\n- Material: {body}\n- Colour: {colour}
say The body of {body} is {colour}; with its {size} and {weight} it [fits on any shelf|is easily carried].
ask size: How large is it? | What are the measures? | What size is it?
ask weight: How heavy is it? | What does it weigh? | What is the weight?
ask body: What is it made of? | Of which material is the body?
ask colour: In which colour does it come? | What colour is it?
frame years=duration phone=phone code=code
say The guarantee is for {years}. Spare parts have the number {code}; order them at {phone}.
say Spare parts ({code}) can be had at {phone}, and the guarantee runs for {years}.
ask years: How long is the guarantee? | For how long is it guaranteed?
ask code: What is the number of the spare parts? | Under what code are spare parts ordered?
ask phone: Where can spare parts be ordered? | What is the number for orders?
frame power=number noise=number time=wait
say It takes {power} watts, makes {noise} decibels and is ready after {time}.
say Power: {power} W. Noise: {noise} dB. Ready after: {time}.
ask power: How many watts does it take? | What is its power?
ask noise: How many decibels does it make? | How loud is it?
ask time: After how long is it ready? | How long does it take to be ready?
frame good=quality bad=quality who=person
say "It is {good}," writes {who}, "but {bad}."
say {who} found it {good}, though {bad}.
ask good: What does {who} praise? | What is good about it?
ask bad: What does {who} complain of? | What is bad about it?
ask who: Who [tried it|found it {good}]?
frame box=goods count=small extra=thing
say In the box: {count} {box}, and a {extra} as a present.
say It comes with {count} {box} and a {extra}.
ask count: How many {box} are in the box? | How many {box} come with it?
ask box: What comes {count} times? | Of what are there {count} in the box?
ask extra: What is the present? | What comes with the {box}?

form order
part number=code buyer=person seller=firm day=date
open Order {number}, {day}. {buyer} orders from {seller}:
open [Invoice|Bill] {number}\n{seller}, {day}\nTo: {buyer}
close [Payment within fourteen days.|Thank you for your order.]
ask buyer: Who [ordered|gets the bill] from {seller}? | For whom is {number}?
ask seller: From whom did {buyer} order? | Which firm sent {number}?
ask number: What is the number of {buyer}'s order? | Which number has the paper of {day}?
ask day: What is the date of {number}? | When did {buyer} order?
frame count=small what=goods each=price sum=price
say {count} [boxes|crates|sacks] of {what} at {each}, together {sum}.
say - {what}: {count} [boxes|crates], {each} each, {sum} in all
ask count: How many [boxes|crates|sacks] of {what} are there? | How much {what} was ordered?
ask each: What does one [box|crate] of {what} cost? | What is the price of {what} each?
ask sum: What do the {what} cost together? | What is the sum for the {what}?
ask what: Of what were {count} ordered? | What costs {each} each?
frame where=street when=weekday hour=hour who=person
say [To be delivered|Delivery] to {where} on {when}, {hour}; {who} signs for it.
say {who} will take it in at {where}, {when} at {hour}.
ask where: Where is it delivered? | To what address does it go?
ask when: On which day is it delivered? | When does it come?
ask hour: At what time is it delivered?
ask who: Who signs for it? | Who takes it in?
frame less=percent why=trouble
say {less} less was charged because {why}.
say As {why}, the bill is lower by {less}.
ask less: By how much is the bill lower? | How much less was charged?
ask why: Why is the bill lower? | Why was less charged?

form advert
part firm=firm town=place
open {firm} in {town} is looking for people.
open Wanted by {firm}, {town}
ask town: Where is {firm}? | In which town is {firm} looking for people?
ask firm: Who is looking for people in {town}? | Which firm wants people?
frame role=role hours=number pay=price start=date
say We need a {role} for {hours} hours a month from {start} on; the pay is {pay} a day.
say From {start}: {role}, {hours} hours, {pay} a day.
ask role: What kind of worker is needed from {start}? | Who is wanted for {hours} hours?
ask hours: How many hours does the {role} work? | For how many hours is the {role} needed?
ask pay: What is the {role} paid? | How much a day does the {role} get?
ask start: From when is the {role} needed? | When does the {role} begin?
frame skill=tongue years=duration who=person
say You should speak {skill} and have worked for {years}. Write to {who}.
say {who} reads your letters. {Skill} is asked for, and so are {years} of practice.
ask skill: Which language is asked for? | What should one speak?
ask years: How much practice is asked for? | How long should one have worked?
ask who: To whom should one write? | Who reads the letters?
frame flat=street rooms=small rent=price free=date
say To let: {flat}, {rooms} rooms, {rent} a month, free from {free}.
say The flat at {flat} has {rooms} rooms and costs {rent} a month. It is free from {free} on.
ask flat: Which flat is to let? | What is the address of the flat?
ask rooms: How many rooms has the flat[| at {flat}]?
ask rent: What is the rent[| at {flat}]? | How much is the flat a month?
ask free: When is the flat free? | From what day can one move to {flat}?
frame thing=product age=duration price=price reason=quality
say For sale: a {thing}, {age} old, {price}. It is {reason}.
say Who wants a {thing}? It is {age} old and {reason}; I ask {price}.
ask price: How much is the {thing}? | What is asked for the {thing}?
ask age: How old is the {thing}? | For how long has the {thing} been used?
ask reason: What is said of the {thing}? | How is the {thing}?
ask thing: What is for sale? | What is {age} old?
frame course=deed who=trade fee=price day=weekday
say Learn how to {course} with a {who}, every {day}, {fee} a lesson.
say On {day}s a {who} shows how to {course}. A lesson costs {fee}.
ask course: What can be learned on {day}s? | What does the {who} teach?
ask who: Who teaches to {course}? | Whose lessons are on {day}s?
ask fee: What does a lesson cost? | How much is a lesson with the {who}?
ask day: When are the lessons? | On which day does the {who} teach?

form contract
part owner=person tenant=person home=street since=date
open Between {owner} (owner) and {tenant} (tenant), about {home}, from {since} on:
open Agreement on {home}. Owner: {owner}. Tenant: {tenant}. Begins on {since}.
ask owner: Who owns {home}? | Who is the owner?
ask tenant: Who is the tenant[| of {home}]? | Who rents {home}?
ask since: When does the agreement begin? | From when on does {tenant} rent it?
ask home: What does {tenant} rent? | Which house is the agreement about?
frame rent=price day=small deposit=price
say The rent is {rent}, due on day {day} of the month. The deposit is {deposit}.
say {rent} are paid on day {day} of each month, after a deposit of {deposit}.
ask rent: How high is the rent? | What is paid each month?
ask day: On which day of the month is the rent due?
ask deposit: How large is the deposit? | What is the deposit?
frame notice=duration pet=animal room=room
say Notice is {notice}. One {pet} is allowed. {Room} is not part of it.
say The tenant may keep a {pet}, may not use {room}, and has to give notice {notice} before leaving.
ask notice: How long is the notice? | How long before leaving must notice be given?
ask pet: Which animal is allowed? | What may the tenant keep?
ask room: What [is not part of it|may the tenant not use]?
frame who=person what=deed every=duration
say {who} comes every {every} to {what}.
say Every {every}, {who} has to {what}.
ask who: Who has to {what}? | Who comes every {every}?
ask what: What does {who} have to do? | Why does {who} come?
ask every: How often does {who} come? | How often does {who} {what}?

form accounts
part firm=firm year=year boss=person
open {firm}: report for {year}, by {boss}
open # {firm} in {year}\n\n{boss} reports:
ask boss: Who [reports for|wrote the report of] {firm}? | Who reports on {year}?
ask year: Which year is the report of {firm} about? | For what year does {boss} report?
ask firm: Which firm does {boss} report on? | Whose report is it?
frame sales=price up=percent best=goods
say Sales came to {sales}, {up} more than before; most of it was {best}.
say We sold for {sales}. That is {up} more, thanks to {best}.
ask sales: What were the sales? | For how much was sold?
ask up: By how much did sales grow? | How much more was sold?
ask best: What sold best? | To what are the sales owed?
frame staff=number new=small town=place who=person
say There are {staff} of us now. {new} began in the new office at {town}, which {who} leads.
say {who} leads the office at {town}, where {new} began; all in all there are {staff} of us.
ask staff: How many people work there in all? | How large is the staff?
ask new: How many began [in|at] {town}? | How many people are new?
ask town: Where is the new office? | Which office does {who} lead?
ask who: Who leads the office at {town}? | Who leads the new office?
frame debt=price bank=firm until=year
say {bank} lent us {debt}, to be paid back by {until}.
say By {until} we owe {bank} the sum of {debt}.
ask debt: How much is owed? | What did {bank} lend?
ask bank: Who lent the money? | To whom is {debt} owed?
ask until: By when must it be paid back? | In what year must {bank} be paid?
frame plan=deed cost=price who=role start=date
say Next we want to {plan} for {cost}. The {who} begins on {start}.
say The {who} will {plan} from {start} on; {cost} are set aside.
ask plan: What is planned for {start}? | For what are {cost} set aside?
ask cost: What will it cost to {plan}? | How much is set aside?
ask who: Who will {plan}? | Who begins on {start}?
ask start: When does the {who} begin? | From when on will the {who} {plan}?
"""
