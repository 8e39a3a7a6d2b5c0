#!/usr/bin/env python3
"""Writes a small help desk in each of seven languages, and measures word search on it.

    make-languages.py write DIR            bases in neutral format: DIR/de, DIR/es, ...
    make-languages.py measure DIR AGENT    imports and indexes them in AGENT_HOME with the binary
                                           AGENT, and prints a table beside SQLite FTS5

A base has 16 products and 256 articles. An article is one of 16 troubles with one of the products, so
16 articles share a product and 16 a trouble. Each of the 40 questions names one article by both, in
other forms than the article: inflected, compounds split or joined, umlauts spelled out, words inside a
sentence without spaces. Needs Python 3.9 with sqlite3 (FTS5, trigram: SQLite 3.34).
"""

import csv
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

# For each language: an article, a question, sentences that say nothing, products as (name, form in
# questions, another), and troubles as (title, sentence, form in questions).
LANGUAGES = {
    "de": {
        "article": "{sentence} Betrifft: {product}. {filler}",
        "question": "Was hilft bei {trouble} am {product}?",
        "fillers": [
            "Bitte wenden Sie sich an den Kundendienst.",
            "Die Mitarbeiter im Lager wissen Bescheid.",
            "Der Vorgang wurde am Montag angelegt.",
            "Weitere Anleitungen stehen im Handbuch.",
            "Ein Techniker prüft die Geräte vor Ort.",
        ],
        "products": [
            ("Bürodrucker", "Buerodruckern", "Drucker im Büro"),
            ("Tintenpatrone", "Tintenpatronen", "Patronen mit Tinte"),
            ("Netzwerkkabel", "Netzwerkkabels", "Kabeln im Netzwerk"),
            ("Schreibtischlampe", "Schreibtischlampen", "Lampen am Schreibtisch"),
            ("Türöffner", "Tueroeffnern", "Öffner der Tür"),
            ("Kühlschrank", "Kühlschränken", "Kuehlschrank"),
            ("Besprechungsraum", "Besprechungsräumen", "Raum für Besprechungen"),
            ("Diensthandy", "Diensthandys", "Handy im Dienst"),
            ("Zugangskarte", "Zugangskarten", "Karte für den Zugang"),
            ("Telefonanlage", "Telefonanlagen", "Anlage fürs Telefon"),
            ("Kaffeemaschine", "Kaffeemaschinen", "Maschine für Kaffee"),
            ("Rechnungsprüfung", "Rechnungsprüfungen", "Prüfen der Rechnungen"),
            ("Urlaubsantrag", "Urlaubsanträgen", "Anträge auf Urlaub"),
            ("Fußbodenheizung", "Fussbodenheizungen", "Heizung im Fussboden"),
            ("Großbildschirm", "Großbildschirmen", "Grossbildschirm"),
            ("Bohrhammer", "Bohrhämmern", "Bohrhaemmer"),
        ],
        "troubles": [
            ("Verspätete Lieferung", "Die Lieferung kam zwei Wochen zu spät.", "verspäteten Lieferungen"),
            ("Kratzer am Gehäuse", "Das Gehäuse hat tiefe Kratzer.", "zerkratzten Gehäusen"),
            ("Rückerstattung", "Der Kaufpreis wurde noch nicht erstattet.", "rueckerstatteten Kaufpreisen"),
            ("Anleitung fehlt", "Die Bedienungsanleitung war nicht im Karton.", "fehlenden Anleitungen zur Bedienung"),
            ("Falsche Farbe", "Geliefert wurde eine falsche Farbe.", "falschen Farben"),
            ("Laute Geräusche", "Im Betrieb sind laute Geräusche zu hören.", "lautem Geraeusch"),
            ("Garantie verlängern", "Die Garantie lässt sich um zwei Jahre verlängern.", "Garantieverlängerungen"),
            ("Überhitzung", "Nach kurzer Zeit überhitzt das Teil.", "ueberhitzten Teilen"),
            ("Schlüssel verloren", "Der Schlüssel ging gestern verloren.", "verlorenem Schluessel"),
            ("Passwort zurücksetzen", "Das Passwort lässt sich nicht zurücksetzen.", "zurückgesetzten Passwörtern"),
            ("Gutschrift fehlt", "Die Gutschrift steht nicht auf dem Konto.", "Gutschriften auf den Konten"),
            ("Stromausfall", "Nach einem Stromausfall startet nichts mehr.", "Ausfall vom Strom"),
            ("Wartungsvertrag", "Der Wartungsvertrag läuft im Herbst aus.", "Verträgen zur Wartung"),
            ("Umtausch", "Ein Umtausch ist im Laden möglich.", "umgetauschter Ware"),
            ("Ersatzteile bestellen", "Ersatzteile sind sofort zu haben.", "Bestellung eines Ersatzteils"),
            ("Beschädigte Verpackung", "Die Verpackung kam beschädigt an.", "Verpackungsschäden"),
        ],
    },
    "es": {
        "article": "{sentence} Se trata de: {product}. {filler}",
        "question": "¿Qué hago con {trouble} de {product}?",
        "fillers": [
            "Póngase en contacto con el servicio técnico.",
            "El personal del almacén ya lo sabe.",
            "El caso se abrió el lunes por la mañana.",
            "Hay más instrucciones en el manual.",
            "Un técnico revisará los aparatos en la oficina.",
        ],
        "products": [
            ("impresora láser", "impresoras láser", "impresoras laser"),
            ("cartucho de tinta", "cartuchos de tinta", "tintas y cartuchos"),
            ("cable de conexión", "cables de conexiones", "cables de conexion"),
            ("lámpara de escritorio", "lámparas de escritorios", "lampara del escritorio"),
            ("teléfono móvil", "teléfonos móviles", "telefonos moviles"),
            ("tarjeta de acceso", "tarjetas de accesos", "accesos con tarjeta"),
            ("sala de reunión", "salas de reuniones", "reuniones en la sala"),
            ("ratón inalámbrico", "ratones inalámbricos", "raton inalambrico"),
            ("máquina de café", "máquinas de café", "maquina de cafe"),
            ("altavoz portátil", "altavoces portátiles", "altavoz portatil"),
            ("calefacción del suelo", "calefacciones de suelos", "calefaccion del suelo"),
            ("pantalla táctil", "pantallas táctiles", "pantalla tactil"),
            ("nevera pequeña", "neveras pequeñas", "pequenas neveras"),
            ("solicitud de vacaciones", "solicitudes de vacaciones", "solicitar las vacaciones"),
            ("lector de códigos", "lectores de códigos", "lector del codigo"),
            ("martillo perforador", "martillos perforadores", "perforadoras y martillos"),
        ],
        "troubles": [
            ("Entrega tardía", "La entrega llegó dos semanas tarde.", "entregas tardías"),
            ("Arañazos en la carcasa", "La carcasa tiene arañazos profundos.", "carcasas arañadas"),
            ("Devolución del dinero", "Todavía no se ha devuelto el importe.", "devoluciones del importe"),
            ("Faltan instrucciones", "El folleto de instrucciones no estaba en la caja.", "la instruccion que falta en las cajas"),
            ("Color equivocado", "Enviaron un color equivocado.", "colores equivocados"),
            ("Ruidos fuertes", "Se oyen ruidos fuertes al arrancar.", "ruido fuerte en los arranques"),
            ("Ampliar la garantía", "La garantía se puede ampliar dos años.", "ampliación de garantias"),
            ("Sobrecalentamiento", "Se calienta demasiado al poco tiempo.", "piezas sobrecalentadas"),
            ("Llave perdida", "La llave se perdió ayer.", "llaves perdidas"),
            ("Contraseña olvidada", "No se puede restablecer la contraseña.", "contraseñas olvidadas"),
            ("Factura duplicada", "La factura se cobró por duplicado.", "facturas duplicadas"),
            ("Corte de luz", "Tras un corte de luz ya no enciende.", "cortes de luz al encender"),
            ("Contrato de mantenimiento", "El contrato de mantenimiento vence en otoño.", "contratos de mantenimiento vencidos"),
            ("Cambio de producto", "El cambio se hace en la tienda.", "cambios en tiendas"),
            ("Pedir repuestos", "Los repuestos llegan enseguida.", "el pedido de un repuesto"),
            ("Embalaje dañado", "El embalaje llegó dañado.", "embalajes con daños"),
        ],
    },
    "fr": {
        "article": "{sentence} Concerne : {product}. {filler}",
        "question": "Que faire pour {trouble} de {product} ?",
        "fillers": [
            "Merci de contacter le service technique.",
            "Le personnel du dépôt est au courant.",
            "Le dossier a été ouvert lundi matin.",
            "D'autres consignes figurent dans le manuel.",
            "Un technicien examine les appareils sur place.",
        ],
        "products": [
            ("imprimante à laser", "imprimantes laser", "imprimante au laser"),
            ("cartouche d'encre", "cartouches d'encres", "l'encre en cartouche"),
            ("câble de réseau", "câbles de réseaux", "cable du reseau"),
            ("lampe de bureau", "lampes de bureaux", "bureau avec lampe"),
            ("téléphone portable", "téléphones portables", "telephone portable"),
            ("carte d'accès", "cartes d'accès", "l'acces par carte"),
            ("salle de réunion", "salles de réunions", "reunions en salle"),
            ("souris sans fil", "souris à fil", "souris et fils"),
            ("machine à café", "machines à cafés", "cafe de la machine"),
            ("haut-parleur", "haut-parleurs", "hauts parleurs"),
            ("chauffage au sol", "chauffages des sols", "chauffer le sol"),
            ("écran tactile", "écrans tactiles", "ecran tactile"),
            ("réfrigérateur", "réfrigérateurs", "refrigerateur"),
            ("demande de congé", "demandes de congés", "demander un conge"),
            ("lecteur de codes", "lecteurs de code", "lire les codes du lecteur"),
            ("marteau perforateur", "marteaux perforateurs", "perforateurs et marteaux"),
        ],
        "troubles": [
            ("Livraison en retard", "La livraison est arrivée deux semaines trop tard.", "des livraisons retardées"),
            ("Rayures sur le boîtier", "Le boîtier porte des rayures profondes.", "un boitier rayé"),
            ("Remboursement", "Le montant n'a pas encore été remboursé.", "rembourser les montants"),
            ("Notice absente", "La notice d'utilisation n'était pas dans le carton.", "des notices absentes des cartons"),
            ("Mauvaise couleur", "On a envoyé une mauvaise couleur.", "de mauvaises couleurs"),
            ("Bruits forts", "On entend des bruits forts au démarrage.", "un bruit fort en démarrant"),
            ("Prolonger la garantie", "La garantie peut être prolongée de deux ans.", "une prolongation des garanties"),
            ("Surchauffe", "La pièce chauffe vite et s'arrête.", "des pièces surchauffées"),
            ("Clé perdue", "La clé a été perdue hier.", "des cles perdues"),
            ("Mot de passe oublié", "Impossible de réinitialiser le mot de passe.", "la réinitialisation des mots de passe"),
            ("Facture en double", "La facture a été payée en double.", "des factures doublées"),
            ("Panne de courant", "Après une panne de courant plus rien ne s'allume.", "des pannes du courant"),
            ("Contrat d'entretien", "Le contrat d'entretien expire en automne.", "des contrats d'entretien expirés"),
            ("Échange en magasin", "L'échange se fait au magasin.", "échanger dans les magasins"),
            ("Commander des pièces détachées", "Les pièces détachées arrivent aussitôt.", "la commande d'une pièce détachée"),
            ("Emballage abîmé", "L'emballage est arrivé abîmé.", "des emballages abimes"),
        ],
    },
    "ru": {
        "article": "{sentence} Касается: {product}. {filler}",
        "question": "Что делать, если у {product} {trouble}?",
        "fillers": [
            "Обратитесь в службу поддержки.",
            "Сотрудники склада уже знают.",
            "Заявка создана в понедельник утром.",
            "Подробные указания есть в руководстве.",
            "Мастер проверит устройства на месте.",
        ],
        "products": [
            ("лазерный принтер", "лазерных принтеров", "принтера с лазером"),
            ("чернильный картридж", "чернильных картриджей", "картриджа с чернилами"),
            ("сетевой кабель", "сетевых кабелей", "кабелей для сети"),
            ("настольная лампа", "настольных ламп", "лампы на столе"),
            ("мобильный телефон", "мобильных телефонов", "телефона мобильного"),
            ("карта доступа", "карт доступа", "доступа по карте"),
            ("переговорная комната", "переговорных комнат", "комнаты для переговоров"),
            ("беспроводная мышь", "беспроводных мышей", "мыши без провода"),
            ("кофейный автомат", "кофейных автоматов", "автомата с кофе"),
            ("чёрная колонка", "чёрных колонок", "черной колонки"),
            ("тёплый пол", "тёплых полов", "теплого пола"),
            ("сенсорный экран", "сенсорных экранов", "экранов сенсорных"),
            ("холодильник", "холодильников", "холодильника"),
            ("заявление на отпуск", "заявлений на отпуск", "отпускного заявления"),
            ("считыватель кодов", "считывателей кода", "считывателя для кода"),
            ("ударная дрель", "ударных дрелей", "дрели ударной"),
        ],
        "troubles": [
            ("Опоздание доставки", "Доставка опоздала на две недели.", "опоздавшая доставка"),
            ("Царапины на корпусе", "На корпусе глубокие царапины.", "поцарапан корпус"),
            ("Возврат денег", "Деньги до сих пор не вернули.", "нет возврата деньгами"),
            ("Нет инструкции", "Инструкции не было в коробке.", "пропала инструкция из коробки"),
            ("Неверный цвет", "Прислали неверный цвет.", "неверного цвета"),
            ("Громкий шум", "При запуске слышен громкий шум.", "громкие шумы при запусках"),
            ("Продление гарантии", "Гарантию можно продлить на два года.", "продлевается гарантия"),
            ("Перегрев", "Деталь быстро перегревается.", "перегретые детали"),
            ("Потерян ключ", "Ключ вчера потеряли.", "потеря ключей"),
            ("Забытый пароль", "Не удаётся сбросить пароль.", "сброс забытых паролей"),
            ("Двойной счёт", "Счёт оплатили дважды.", "двойные счета"),
            ("Отключение света", "После отключения света ничего не включается.", "отключили свет"),
            ("Договор обслуживания", "Договор обслуживания истекает осенью.", "истекли договоры обслуживания"),
            ("Обмен товара", "Обмен возможен в магазине.", "обменяли товары в магазинах"),
            ("Заказ запчастей", "Запчасти приходят сразу.", "заказаны запчасть"),
            ("Повреждённая упаковка", "Упаковка пришла повреждённой.", "повреждена упаковкой"),
        ],
    },
    "zh": {
        "article": "{sentence}涉及产品：{product}。{filler}",
        "question": "请问{product}{trouble}怎么办？",
        "fillers": [
            "请联系客户服务部门。",
            "仓库的同事已经知道了。",
            "这个问题是星期一早上登记的。",
            "更多说明请看使用手册。",
            "技术人员会到现场检查设备。",
        ],
        "products": [
            ("激光打印机", "激光打印机", "用激光的打印机"),
            ("墨水盒", "墨水盒", "打印墨水盒"),
            ("网络电缆", "网络电缆", "网络的电缆"),
            ("桌面台灯", "桌面台灯", "桌面上的台灯"),
            ("移动电话", "移动电话", "移动的电话"),
            ("门禁卡", "门禁卡", "进门的门禁卡"),
            ("会议室", "会议室", "开会的会议室"),
            ("无线鼠标", "无线鼠标", "无线的鼠标"),
            ("咖啡机", "咖啡机", "煮咖啡的咖啡机"),
            ("蓝牙音箱", "蓝牙音箱", "蓝牙的音箱"),
            ("地板暖气", "地板暖气", "地板下的暖气"),
            ("触摸屏幕", "触摸屏幕", "可触摸的屏幕"),
            ("小型冰箱", "小型冰箱", "小型的冰箱"),
            ("休假申请", "休假申请", "申请休假"),
            ("条码扫描器", "条码扫描器", "扫描条码的扫描器"),
            ("冲击电钻", "冲击电钻", "冲击式电钻"),
        ],
        "troubles": [
            ("送货延迟", "货物晚了两个星期才送到。", "的送货一再延迟"),
            ("外壳划痕", "外壳上有很深的划痕。", "外壳上出现划痕"),
            ("退还货款", "货款到现在还没有退还。", "还没退还货款"),
            ("缺少说明书", "箱子里没有说明书。", "的说明书缺少了"),
            ("颜色错误", "送来的颜色是错误的。", "发错颜色"),
            ("噪音很大", "启动时发出很大的噪音。", "有很大噪音"),
            ("延长保修", "保修可以延长两年。", "的保修想延长"),
            ("温度过高", "用了一会儿温度就过高。", "过高的温度"),
            ("丢失钥匙", "钥匙昨天丢失了。", "的钥匙丢失"),
            ("重置密码", "密码不能重置。", "忘了密码要重置"),
            ("重复发票", "发票被重复付款。", "收到重复的发票"),
            ("停电故障", "停电以后再也不能启动。", "碰到停电"),
            ("维护合同", "维护合同秋天到期。", "的维护合同到期"),
            ("更换商品", "可以在商店里更换。", "去商店更换"),
            ("订购配件", "配件马上就有。", "的配件要订购"),
            ("包装损坏", "收到时包装已经损坏。", "损坏的包装"),
        ],
    },
    "ja": {
        "article": "{sentence}対象製品は{product}です。{filler}",
        "question": "{product}{trouble}どうすればいいですか？",
        "fillers": [
            "お客様サービスまでご連絡ください。",
            "倉庫の担当者には伝えてあります。",
            "この件は月曜日の朝に登録されました。",
            "詳しい使い方は取扱説明書にあります。",
            "技術者が現地で機器を調べます。",
        ],
        "products": [
            ("レーザープリンター", "レーザープリンタ", "レーザーのプリンター"),
            ("インクカートリッジ", "インクカートリッジ", "インクのカートリッジ"),
            ("ネットワークケーブル", "ネットワークケーブル", "ネットワークのケーブル"),
            ("卓上ライト", "卓上ライト", "卓上のライト"),
            ("携帯電話", "携帯電話", "携帯の電話"),
            ("入館カード", "入館カード", "入館用カード"),
            ("会議室", "会議室", "会議用の会議室"),
            ("無線マウス", "無線マウス", "無線のマウス"),
            ("コーヒーメーカー", "コーヒーメーカ", "コーヒー用メーカー"),
            ("小型スピーカー", "小型スピーカ", "小型のスピーカー"),
            ("床暖房", "床暖房", "床の暖房"),
            ("タッチ画面", "タッチ画面", "タッチする画面"),
            ("小型冷蔵庫", "小型冷蔵庫", "小型の冷蔵庫"),
            ("休暇申請", "休暇申請", "休暇の申請"),
            ("バーコード読取機", "バーコード読取機", "バーコードの読取機"),
            ("電動ドリル", "電動ドリル", "電動のドリル"),
        ],
        "troubles": [
            ("配送の遅れ", "配送が二週間遅れました。", "の配送が遅れたら"),
            ("外装の傷", "外装に深い傷があります。", "の外装に傷がついたら"),
            ("返金", "代金がまだ返金されていません。", "の代金を返金してもらうには"),
            ("説明書の不足", "箱に説明書が入っていませんでした。", "の箱に説明書がないときは"),
            ("色違い", "違う色が届きました。", "の色が違うときは"),
            ("大きな騒音", "起動すると大きな騒音がします。", "の騒音が大きいときは"),
            ("保証の延長", "保証は二年延長できます。", "の保証を延長したいときは"),
            ("過熱", "少し使うと過熱します。", "が過熱したときは"),
            ("鍵の紛失", "昨日鍵を紛失しました。", "の鍵を紛失した場合は"),
            ("暗証番号の再設定", "暗証番号を再設定できません。", "の暗証番号を再設定するには"),
            ("請求の重複", "請求書が重複して届きました。", "の請求が重複したら"),
            ("停電", "停電のあと起動しません。", "が停電で止まったら"),
            ("保守契約", "保守契約は秋に終わります。", "の保守契約が切れたら"),
            ("商品の交換", "交換は店舗でできます。", "を店舗で交換するには"),
            ("部品の注文", "部品はすぐに届きます。", "の部品を注文するには"),
            ("包装の破損", "包装が破損して届きました。", "の包装が破損していたら"),
        ],
    },
    "ko": {
        "article": "{sentence} 대상 제품: {product}. {filler}",
        "question": "{product} {trouble} 어떻게 하나요?",
        "fillers": [
            "고객 지원 센터에 문의해 주세요.",
            "창고 직원들은 이미 알고 있습니다.",
            "이 문의는 월요일 아침에 등록되었습니다.",
            "자세한 내용은 사용 안내서에 있습니다.",
            "기술자가 현장에서 장비를 점검합니다.",
        ],
        "products": [
            ("레이저 프린터", "레이저프린터에서", "레이저 프린터의"),
            ("잉크 카트리지", "잉크카트리지가", "잉크 카트리지를"),
            ("네트워크 케이블", "네트워크케이블의", "네트워크 케이블에"),
            ("탁상 조명", "탁상조명이", "탁상용 조명을"),
            ("휴대 전화", "휴대전화에서", "휴대용 전화기가"),
            ("출입 카드", "출입카드의", "출입용 카드를"),
            ("회의실", "회의실에서", "회의실의"),
            ("무선 마우스", "무선마우스가", "무선 마우스를"),
            ("커피 머신", "커피머신에서", "커피 머신의"),
            ("소형 스피커", "소형스피커의", "소형 스피커가"),
            ("바닥 난방", "바닥난방이", "바닥 난방을"),
            ("터치 화면", "터치화면의", "터치 화면에서"),
            ("냉장고", "냉장고의", "냉장고에서"),
            ("휴가 신청", "휴가신청이", "휴가를 신청할"),
            ("바코드 판독기", "바코드판독기가", "바코드 판독기의"),
            ("전동 드릴", "전동드릴의", "전동 드릴에서"),
        ],
        "troubles": [
            ("배송 지연", "배송이 두 주 늦었습니다.", "배송이 지연되면"),
            ("외관 흠집", "외관에 깊은 흠집이 있습니다.", "외관에 흠집이 나면"),
            ("환불", "대금이 아직 환불되지 않았습니다.", "대금을 환불받으려면"),
            ("설명서 누락", "상자에 설명서가 없었습니다.", "설명서가 누락되면"),
            ("색상 오류", "잘못된 색상이 왔습니다.", "색상이 잘못되면"),
            ("큰 소음", "켤 때 큰 소음이 납니다.", "소음이 크면"),
            ("보증 연장", "보증은 이 년 연장할 수 있습니다.", "보증을 연장하려면"),
            ("과열", "잠시 쓰면 과열됩니다.", "과열이 되면"),
            ("열쇠 분실", "어제 열쇠를 분실했습니다.", "열쇠를 분실하면"),
            ("비밀번호 재설정", "비밀번호를 재설정할 수 없습니다.", "비밀번호의 재설정은"),
            ("중복 청구", "청구서가 중복되었습니다.", "청구가 중복되면"),
            ("정전", "정전 뒤에 켜지지 않습니다.", "정전이 되면"),
            ("유지보수 계약", "유지보수 계약이 가을에 끝납니다.", "유지보수의 계약은"),
            ("상품 교환", "교환은 매장에서 가능합니다.", "매장에서 교환하려면"),
            ("부품 주문", "부품은 바로 도착합니다.", "부품을 주문하려면"),
            ("포장 파손", "포장이 파손되어 도착했습니다.", "파손된 포장은"),
        ],
    },
}
PRODUCTS, QUESTIONS, TOP = 16, 40, 20


def articles(language):
    """Product and trouble of each article."""
    return [(product, trouble) for product in range(PRODUCTS) for trouble in range(len(language["troubles"]))]


def nodes(language):
    """The nodes: products, then articles."""
    products = [{"id": at, "type": "product", "name": name} for at, (name, *_) in enumerate(language["products"])]
    texts = []
    for at, (product, trouble) in enumerate(articles(language)):
        title, sentence, _ = language["troubles"][trouble]
        fillers = language["fillers"]
        text = language["article"].format(
            sentence=sentence, product=language["products"][product][0], filler=fillers[at * 3 % len(fillers)]
        )
        texts.append({"id": PRODUCTS + at, "type": "article", "name": title, "details": {"text": text}})
    return products, texts


def questions(language):
    """Texts of the questions with the node that answers each."""
    found = []
    pairs = articles(language)
    for at in range(QUESTIONS):
        article = at * 109 % len(pairs)
        product, trouble = pairs[article]
        form = language["products"][product][1 + at % 2]
        text = language["question"].format(product=form, trouble=language["troubles"][trouble][2])
        found.append((text, PRODUCTS + article))
    return found


def write(root):
    """Writes all bases in neutral format."""
    for code, language in LANGUAGES.items():
        base = root / code
        (base / "split").mkdir(parents=True, exist_ok=True)
        products, texts = nodes(language)
        with open(base / "nodes.jsonl", "w", encoding="utf-8") as out:
            for node in products + texts:
                out.write(json.dumps(node, ensure_ascii=False) + "\n")
        with open(base / "edges.tsv", "w", encoding="utf-8") as out:
            out.write("src_id\trelation\tdst_id\n")
            for at, (product, _) in enumerate(articles(language)):
                out.write(f"{PRODUCTS + at}\tabout\t{product}\n")
        with open(base / "qa.csv", "w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(["id", "query", "answer_ids"])
            for at, (text, node) in enumerate(questions(language)):
                rows.writerow([at, text, f"[{node}]"])
        (base / "split" / "val.index").write_text("".join(f"{at}\n" for at in range(QUESTIONS)))
        (base / "split" / "train.index").write_text("")
        (base / "split" / "test.index").write_text("")
        title = f'title = "Help desk ({code})"\nlicence = "CC0"\ncandidate_types = ["article"]\n'
        (base / "dataset.toml").write_text(title)


def fts_terms(text, tokenizer):
    """The query of FTS5: all words, or all letter trigrams, one of which must match."""
    if tokenizer == "trigram":
        words = re.findall(r"\w+", text)
        terms = [word[at : at + 3] for word in words for at in range(len(word) - 2)]
    else:
        terms = re.findall(r"\w+", text)
    return " OR ".join(f'"{term}"' for term in terms)


def fts_ranks(language, tokenizer):
    """For each question the place of its article, from 1; none if it is not found."""
    db = sqlite3.connect(":memory:")
    db.execute(f'create virtual table texts using fts5(name, text, tokenize="{tokenizer}")')
    for node in nodes(language)[1]:
        row = (node["id"], node["name"], node["details"]["text"])
        db.execute("insert into texts(rowid, name, text) values (?, ?, ?)", row)
    ranks = []
    for text, node in questions(language):
        terms = fts_terms(text, tokenizer.split()[0])
        statement = "select rowid from texts where texts match ? order by rank, rowid limit ?"
        found = [row[0] for row in db.execute(statement, (terms, TOP))] if terms else []
        ranks.append(found.index(node) + 1 if node in found else None)
    return ranks


def agent_ranks(agent, name, system, language):
    """The same by a system of the program."""
    ranks = []
    for text, node in questions(language):
        command = [agent, "search", name, text, "--system", system, "-k", str(TOP), "--json"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = [json.loads(line)["id"] for line in out.splitlines()]
        ranks.append(found.index(node) + 1 if node in found else None)
    return ranks


def cell(ranks):
    """Questions whose article is first, and those without it among the first 20."""
    return f"{sum(rank == 1 for rank in ranks)} ({sum(rank is None for rank in ranks)})"


def measure(root, agent):
    """Prints the table."""
    systems = ("bm25", "bm25f", "hybrid")
    tokenizers = ("unicode61", "trigram")
    header = ["language", *(f"FTS5 {name}" for name in tokenizers), *systems]
    print("| " + " | ".join(header) + " |\n" + "| --- " * len(header) + "|", flush=True)
    for code, language in LANGUAGES.items():
        name = f"lang-{code}"
        for command in (["data", "import", "--from", str(root / code), "--name", name], ["index", name, "--force"]):
            subprocess.run([agent, *command], capture_output=True, check=True)
        cells = [cell(fts_ranks(language, tokenizer)) for tokenizer in tokenizers]
        cells += [cell(agent_ranks(agent, name, system, language)) for system in systems]
        print("| " + " | ".join([code, *cells]) + " |", flush=True)
    print(f"\nRight first of {QUESTIONS} (not among the first {TOP}). {os.environ.get('AGENT_HOME', '')}".rstrip())


def main():
    """Runs the command."""
    match_ = sys.argv[1:]
    if len(match_) == 2 and match_[0] == "write":
        write(pathlib.Path(match_[1]))
    elif len(match_) == 3 and match_[0] == "measure":
        root = pathlib.Path(match_[1])
        write(root)
        measure(root, match_[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
