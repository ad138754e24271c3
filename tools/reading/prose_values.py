"""Kinds of values that prose is filled with, beside those of values.py: each draws from a hundred or more, and most
names are made up, so that an answer can only be read."""

import invented
import values
from values import ADJECTIVES, ANIMALS, COLOURS, DISHES, FIRST, GOODS, LAST, MONTHS, THINGS, TRADES

NUMBERS = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen eighteen " \
          "twenty thirty forty fifty sixty".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
UNITS_OF_TIME = "minutes hours days weeks months years".split()
STREETS = "Lane Street Road Row Square Terrace Walk Yard Alley Hill Avenue Court Close Crescent".split()
FIRM_ENDS = "Works;Brothers;Mills;Trading;Foundry;Bakery;Nurseries;Instruments;Press;Dairy;Boatyard;Garage;Stores;" \
            "Textiles;Glass;Timber;Clinic;Pottery;Insurance;Museum Shop;Laundry;Energy;Software;Tools".split(";")
FOODS = """almonds apples barley beans beetroot butter cabbage cardamom carrots cauliflower celery cheese cherries
chestnuts chickpeas chives chocolate cinnamon cloves coconut cream cucumber currants dates dill eggs fennel figs flour
garlic ginger hazelnuts honey leeks lemons lentils lime marjoram milk mint mushrooms mustard noodles nutmeg oats olives
onions oranges oregano paprika parsley parsnips peaches pears peas pepper plums potatoes prunes pumpkin quinces radishes
raisins raspberries rhubarb rice rosemary saffron sage salt semolina sesame spinach squash strawberries sugar thyme
tomatoes turmeric turnips vanilla vinegar walnuts yeast yoghurt""".split()
MATERIALS = """aluminium;ash;bamboo;beech;birch;brass;bronze;canvas;cast iron;ceramic;cherry wood;copper;cork;cotton;felt;
glass;granite;leather;linen;maple;marble;nylon;oak;pewter;pine;porcelain;recycled plastic;rubber;sheepskin;silk;slate;
soapstone;spruce;stainless steel;teak;walnut wood;wool""".replace("\n", "").split(";")
PRODUCTS = """alarm clock;backpack;bicycle;blender;bread oven;camera;camping stove;chair;coffee mill;compass;cordless drill;
desk lamp;digital scale;dishwasher;electric fan;fishing rod;folding table;fountain pen;freezer;garden hose;guitar;hair
dryer;headlamp;heater;iron;kettle;keyboard;kitchen mixer;ladder;lawn mower;mattress;microscope;mountain tent;music
stand;oven;paint sprayer;printer;projector;radio;rain jacket;razor;refrigerator;rowing boat;router;sewing machine;
sleeping bag;sofa;speaker;stroller;suitcase;telescope;thermometer;toaster;torch;typewriter;umbrella;vacuum cleaner;
violin;walking stick;washing machine;watch;water filter;wheelbarrow;wood stove;workbench""".replace("\n", " ").split(";")
EVENTS = "supper concert fair meeting lecture walk parade exhibition market race picnic dance workshop auction festival " \
         "tournament reading service rehearsal play quiz clean-up ceremony".split()
SEASONS = "spring summer autumn winter harvest midsummer New-Year Easter village school county river garden mountain " \
          "children's charity anniversary jazz poetry chess flower cheese lantern kite".split()
ROOMS = """kitchen;library;attic;cellar;hall;chapel;workshop;laundry;gymnasium;canteen;courtyard;greenhouse;boathouse;
reading room;stable;tower;waiting room;office;barn;garage;lobby;theatre""".replace("\n", "").split(";")
SIDES = "upper lower old new east west north south main back front small large".split()
ROLES = "treasurer secretary chair caretaker organist librarian trainer warden accountant steward cook nurse driver " \
        "coach gardener bookkeeper engineer deputy editor porter foreman supervisor apprentice inspector conductor " \
        "archivist electrician plumber surveyor tutor".split()
KIN = "sister brother cousin aunt uncle grandmother grandfather nephew niece neighbour daughter son godmother friend " \
      "landlady colleague mother father".split()
DEEDS = """repair;paint;clean;sell;move;replace;insure;photograph;measure;rebuild;inspect;varnish;rent out;give away;
weigh;auction;dismantle;lock up;decorate;restore;buy;borrow;return;polish;mend;test""".replace("\n", "").split(";")
OBJECTS = """bridge;boiler;roof;piano;fence;water pump;car park;playground;clock;bell;chimney;staircase;stove;gate;boat;
organ;fountain;lift;kitchen floor;archive;flagpole;well;heating;wall by the road;bus shelter;pavilion;rowing boat;
orchard;footpath;stage curtain;hen house;tool shed;gutter;telephone line;notice board;greenhouse;weather vane;bookcase;
drain;street lamp;ovens;tennis court;minibus;scales;loom;kiln""".replace("\n", "").split(";")
TROUBLES = """had frozen;had burst;was cracked;had been stolen;was too narrow;had come loose;was under water;had failed;
was out of order;had not arrived;was sold out;had been painted wrongly;was leaking;had fallen in;was full of mice;
was blocked by snow;was locked;had caught fire;had broken;was double-booked;was being repaired;had rusted through;
was missing two screws;had lost its key;did not fit;was overloaded""".replace("\n", "").split(";")
TONGUES = "Danish Welsh Finnish Greek Basque Maltese Polish Latin Irish Turkish Hungarian Czech Swahili Icelandic " \
          "Estonian Breton Catalan Persian Korean Thai".split()
CURRENCY = ("{n} pounds", "£{n}", "{n} euros", "${n}", "{n}.50 euros", "{n} crowns", "£{n}.{c}", "{n} francs", "{n} dollars")
QUALITIES = """quiet;sturdy;cheap to run;easy to clean;light;waterproof;simple to use;very fast;slow but reliable;heavier
than it looks;too loud;well made;hard to assemble;pleasantly warm;out of stock;popular with beginners;fragile;
fireproof;compact;comfortable;noisy at night;pretty;ugly but useful;worth the money""".replace("\n", " ").split(";")
PLANTS = """roses;tulips;lavender;ivy;ferns;dahlias;apple trees;cherry trees;runner beans;marigolds;sunflowers;asters;
peonies;lilies;tomatoes;leeks;pumpkins;potatoes;strawberries;hops;vines;pear trees;moss;thistles;foxgloves;heather;
willows;birches;mint;onions""".replace("\n", "").split(";")


def surname(rng):
    return invented.surname(rng) if rng.random() < 0.6 else rng.choice(LAST)


def person(rng):
    first = rng.choice(FIRST) if rng.random() < 0.6 else invented.first_name(rng)
    return first + " " + surname(rng)


def firm(rng):
    draw = rng.random()
    if draw < 0.3:
        return f"{surname(rng)} & {rng.choice(('Sons', 'Daughters', 'Co.', surname(rng)))}"
    return f"{surname(rng)} {rng.choice(FIRM_ENDS)}"


def number(rng):
    return rng.choice(NUMBERS) if rng.random() < 0.5 else str(rng.randint(13, 480))


def small(rng):
    return rng.choice(NUMBERS[:14]) if rng.random() < 0.6 else str(rng.randint(2, 24))


def hour(rng):
    draw, h = rng.random(), rng.randint(1, 12)
    if draw < 0.25:
        return f"{rng.choice(('half past', 'a quarter past', 'a quarter to'))} {NUMBERS[h - 2] if h > 1 else 'one'}"
    if draw < 0.5:
        return f"{h}.{rng.choice(('15', '30', '45', '00', '10', '20'))} {rng.choice(('am', 'pm'))}"
    if draw < 0.75:
        return f"{rng.randint(6, 22)}:{rng.randint(0, 11) * 5:02d}"
    return f"{NUMBERS[h - 2] if h > 1 else 'one'} o'clock"


def date(rng):
    day, month = rng.randint(1, 28), rng.choice(MONTHS)
    return rng.choice((f"{day} {month}", f"{month} {day}", f"{day} {month}", f"the {_ordinal(day)} of {month}"))


def _ordinal(n):
    return f"{n}{'th' if n in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def price(rng):
    return (rng.choice(CURRENCY).replace("{n}", str(rng.randint(2, 60) if rng.random() < 0.5 else rng.randint(60, 2400)))
            .replace("{c}", f"{rng.randint(5, 95)}"))


def quantity(rng):
    return rng.choice((f"{rng.randint(2, 40) * 25} g", f"{rng.choice(NUMBERS[:5])} cups", f"{rng.randint(2, 9)} dl",
                       f"{rng.choice(NUMBERS[:6])} spoonfuls", "half a litre", f"{rng.randint(2, 60) * 50} ml",
                       f"{rng.choice(NUMBERS[:4])} handfuls", "a pinch", f"{rng.randint(2, 5)} kg", "half a pound"))


def code(rng):
    letters = "".join(rng.choice("ABCDEFGHKLMNPRSTVWXZ") for _ in range(rng.randint(1, 3)))
    return rng.choice((f"{letters}-{rng.randint(10, 9999)}", f"{letters}{rng.randint(10, 999)}",
                       f"{rng.randint(10, 99)}/{letters}/{rng.randint(10, 99)}"))


def thing(rng):
    return f"{rng.choice(ADJECTIVES)} {rng.choice(THINGS)}"


def trouble(rng):
    return f"the {rng.choice(OBJECTS)} {rng.choice(TROUBLES)}"


KINDS = {
    "person": person,
    "first": lambda rng: rng.choice(FIRST) if rng.random() < 0.5 else invented.first_name(rng),
    "place": invented.place,
    "firm": firm,
    "year": values.KINDS["year"],
    "number": number,
    "small": small,
    "date": date,
    "hour": hour,
    "weekday": lambda rng: rng.choice(WEEKDAYS),
    "price": price,
    "quantity": quantity,
    "code": code,
    "thing": thing,
    "the_thing": lambda rng: "the " + thing(rng),
    "a_thing": lambda rng: values.a(thing(rng)),
    "trouble": trouble,
    "duration": lambda rng: f"{rng.choice(NUMBERS[:17])} {rng.choice(UNITS_OF_TIME)}",
    "wait": lambda rng: f"{rng.choice((5, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50, 55, 75, 90))} minutes"
                        if rng.random() < 0.7 else f"{rng.choice(NUMBERS[:8])} hours",
    "street": lambda rng: f"{rng.randint(2, 180)} {surname(rng)} {rng.choice(STREETS)}",
    "food": lambda rng: rng.choice(FOODS),
    "goods": lambda rng: rng.choice(GOODS),
    "material": lambda rng: rng.choice(MATERIALS),
    "product": lambda rng: rng.choice(PRODUCTS),
    "brand": invented.name,
    "model": lambda rng: invented.name(rng) + rng.choice(("", f" {rng.randint(2, 900)}", " Plus", " Mini", f" {code(rng)}")),
    "degrees": lambda rng: f"{rng.randint(24, 50) * 5} degrees",
    "size": lambda rng: f"{rng.randint(8, 190)} by {rng.randint(8, 190)} cm",
    "weight": lambda rng: f"{rng.randint(1, 60)}.{rng.randint(1, 9)} kg" if rng.random() < 0.6
                          else f"{rng.randint(12, 180) * 5} grams",
    "length": lambda rng: f"{rng.randint(2, 90)} {rng.choice(('metres', 'feet', 'km', 'miles', 'yards'))}",
    "percent": lambda rng: f"{rng.randint(2, 97)} {rng.choice(('%', 'percent', 'per cent'))}",
    "colour": lambda rng: rng.choice(COLOURS) if rng.random() < 0.5 else values.KINDS["colour"](rng),
    "event": lambda rng: f"{rng.choice(SEASONS)} {rng.choice(EVENTS)}",
    "room": lambda rng: f"the {rng.choice(SIDES)} {rng.choice(ROOMS)}" if rng.random() < 0.7
                        else f"Room {rng.randint(2, 320)}",
    "role": lambda rng: rng.choice(ROLES),
    "trade": lambda rng: rng.choice(TRADES),
    "kin": lambda rng: rng.choice(KIN),
    "deed": lambda rng: f"{rng.choice(DEEDS)} the {rng.choice(OBJECTS)}",
    "object": lambda rng: rng.choice(OBJECTS),
    "animal": lambda rng: rng.choice(ANIMALS),
    "beast": lambda rng: f"{rng.choice(ADJECTIVES)} {rng.choice(ANIMALS)}",
    "dish": lambda rng: rng.choice(FOODS).rstrip("s") + " " + rng.choice(DISHES),
    "phone": lambda rng: f"0{rng.randint(11, 999)} {rng.randint(100, 9999)}",
    "tongue": lambda rng: rng.choice(TONGUES),
    "quality": lambda rng: rng.choice(QUALITIES),
    "plant": lambda rng: rng.choice(PLANTS),
    "title": values.title,
    "made": invented.name,
}
